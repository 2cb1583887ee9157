package enforce

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/policy"
)

const warning = `version: 1
policies:
  rolling: {limit: 10 per minute per user, warn: 80%}
  fixed: {limit: "10 per minute per user, fixed", warn: 80%}
  firsthit: {limit: "10 per minute per user, fixed from the first hit", warn: 80%}
  full: {limit: 3 per minute per user, warn: 100%}
  part: {limit: 10 per minute per user, batch: partial, warn: 80%}
  counted: {limit: 10 per minute per user, denied: counted, warn: 80%}
  shadow: {limit: 10 per minute per user, shadow: true, warn: 80%}
  reported: {limit: 10 per minute per user, count: reported, warn: 80%}
  guard: {limit: "10 per minute per user, then block 10m", warn: 80%}
  failures: {limit: "10 per minute per user, then block 10m", count: reported, warn: 80%}
  several:
    limits:
      user: 10 per minute per user
      all: {max: 20, window: hour, warn: 50%}
      silent: 5 per second
  both:
    limits: {user: 10 per minute per user, tenant: "10 per minute per tenant, fixed"}
    warn: 80%
  plans:
    limit: 10 per minute per user
    warn: 80%
    plan-by: plan
    plans: {pro: 20 per minute}
  costly:
    limits: {tokens: {max: 100, window: minute, per: user, warn: 80%}}
    costs: {tokens: 50}
  plain: {limit: 10 per minute per user}
`

func warningRule(t testing.TB, name string, e engine.Engine) *Rule {
	t.Helper()
	return named(rulesOf(t, warning, e), name)
}

// warns decides for the words of a subject at a time after the start, and compares the
// names of the limits that warn.
func (r teller) warns(op weir.Op, after time.Duration, words string, n int64, want string) Outcome {
	r.Helper()
	return r.warnsID(op, after, words, n, "", want)
}

func (r teller) warnsID(op weir.Op, after time.Duration, words string, n int64, id, want string) Outcome {
	r.Helper()
	whose, err := subject(r.T, r.Rule, words)
	if err != nil {
		r.Fatal(err)
	}
	o, err := r.Decide(context.Background(), &Request{Target: whose, Op: op, N: n, At: start.Add(after), ID: id})
	if err != nil {
		r.Fatal(err)
	}
	if got := strings.Join(o.Applied.Warnings, " "); got != want {
		r.Errorf("%v at %v of %d by %s: warnings %q, want %q (%v)", op, after, n, words, got, want, o.Decision)
	}
	return o
}

// TestCrosses lists uses before and after a grant, under a capacity.
func TestCrosses(t *testing.T) {
	const most = weir.MaxUnits
	for _, c := range []struct {
		used, units, capacity, percent int64
		want                           bool
	}{
		{7, 7, 10, 80, false},
		{8, 1, 10, 80, true},
		{8, 8, 10, 80, true},
		{9, 1, 10, 80, false},
		{10, 3, 10, 80, true},
		{10, 2, 10, 80, false},
		{2, 1, 3, 80, false}, // 2.4 is the share
		{3, 1, 3, 80, true},
		{3, 1, 3, 100, true},
		{1, 1, 3, 1, true},
		{4, 1, 3, 100, false}, // a record above the limit
		{5, 5, 0, 50, false},  // a limit of 0 grants nothing
		{most, 1, most, 100, true},
		{most, most, most, 100, true},
		{most - 1, most - 1, most, 100, false},
	} {
		if got := crosses(c.used, c.units, c.capacity, c.percent); got != c.want {
			t.Errorf("crosses(%d, %d, %d, %d) = %v, want %v", c.used, c.units, c.capacity, c.percent, got, c.want)
		}
	}
}

// TestGrantsThatReachTheShareWarn: a grant carries the warning if the use was below the share
// before it and is not afterwards. No other does (R5).
func TestGrantsThatReachTheShareWarn(t *testing.T) {
	for name, trace := range map[string]func(r teller){
		"rolling": func(r teller) {
			r.warns(check, 0, "user=u", 7, "")
			r.warns(peek, 0, "user=u", 3, "")
			r.warns(record, 0, "user=v", 9, "") // a record is no grant
			r.warns(check, time.Second, "user=u", 1, "limit")
			r.warns(check, time.Second, "user=u", 1, "")
			r.warns(check, time.Second, "user=u", 2, "") // denied
			r.warns(check, 2*time.Second, "user=u", 1, "")
			r.warns(check, 2*time.Second, "user=v", 1, "") // the record has passed the share
			r.warns(check, time.Minute, "user=u", 4, "")   // 3 units count
			r.warns(check, time.Minute, "user=u", 1, "limit")
			r.warns(check, time.Minute+time.Second, "user=u", 1, "") // 6
			r.warns(check, time.Minute+time.Second, "user=u", 2, "limit")
			r.warns(check, 10*time.Minute, "user=u", 8, "limit")
		},
		"fixed": func(r teller) {
			r.warns(check, 50*time.Second, "user=u", 9, "limit")
			r.warns(check, time.Minute-us, "user=u", 1, "")
			r.warns(check, time.Minute, "user=u", 8, "limit")
			r.warns(check, time.Minute, "user=u", 1, "")
		},
		"firsthit": func(r teller) {
			r.warns(check, 10*time.Second, "user=u", 1, "")
			r.warns(check, 65*time.Second, "user=u", 7, "limit")
			r.warns(check, 70*time.Second-us, "user=u", 1, "")
			r.warns(check, 71*time.Second, "user=u", 8, "limit") // the next window has begun
			r.warns(check, 72*time.Second, "user=u", 1, "")
		},
		"full": func(r teller) {
			r.warns(check, 0, "user=u", 2, "")
			r.warns(check, 0, "user=u", 1, "limit")
		},
		"part": func(r teller) {
			r.warns(check, 0, "user=u", 5, "")
			r.warns(check, 0, "user=u", 50, "limit") // 5 are granted
		},
		"counted": func(r teller) {
			r.warns(check, 0, "user=u", 11, "") // counted and denied
			r.warns(check, 2*time.Minute, "user=u", 8, "limit")
		},
		"shadow": func(r teller) {
			r.warns(check, 0, "user=u", 11, "") // would be denied
			r.warns(check, 0, "user=u", 10, "limit")
		},
		"reported": func(r teller) {
			r.warns(record, 0, "user=u", 7, "")
			r.warns(check, 0, "user=u", 2, "")
			r.warns(record, 0, "user=u", 1, "limit")
			r.warns(record, 0, "user=u", 9, "")
			r.warns(check, 0, "user=u", 1, "")
		},
		"guard": func(r teller) {
			r.warns(check, 0, "user=u", 8, "limit")
			r.warns(check, 0, "user=u", 3, "") // begins a block
			r.warns(check, 5*time.Minute, "user=u", 9, "")
			r.warns(check, 10*time.Minute, "user=u", 9, "limit")
		},
		"failures": func(r teller) {
			r.warns(record, 0, "user=u", 11, "limit")
			r.warns(check, 0, "user=u", 1, "")
			r.warns(check, 0, "user=u", 1, "")
			r.warns(record, 2*time.Minute, "user=u", 1, "") // blocked, and used is 1
		},
		"several": func(r teller) {
			r.warns(check, 0, "user=a", 5, "")
			r.warns(check, time.Minute, "user=b", 4, "")
			r.warns(check, 2*time.Minute, "user=c", 1, "all")
			r.warns(check, 3*time.Minute, "user=c", 4, "")
		},
		"both": func(r teller) {
			r.warns(check, 0, "user=u tenant=t", 8, "user tenant")
			r.warns(check, 0, "user=v tenant=t", 1, "")
			r.warns(check, 2*time.Minute, "user=v tenant=t", 5, "")
			r.warns(check, 2*time.Minute, "user=w tenant=t", 3, "tenant")
		},
		"plans": func(r teller) {
			r.warns(check, 0, "user=u plan=pro", 15, "")
			r.warns(check, 0, "user=u plan=pro", 1, "limit")
			r.warns(check, 0, "user=u plan=pro", 1, "")
			r.warns(check, 0, "user=v", 8, "limit")
		},
		"costly": func(r teller) {
			r.warns(check, 0, "user=u", 1, "")
			r.warns(check, 0, "user=u", 1, "tokens")
		},
		"plain": func(r teller) { r.warns(check, 0, "user=u", 10, "") },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine.Engine) { trace(teller{t, warningRule(t, name, e)}) })
		})
	}
}

// TestBucketsAndHoldsWarn: the use of a bucket is the missing units, that of a limit of
// holds the held units. A period counts its own units.
func TestBucketsAndHoldsWarn(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		rule := func(name string, l weir.Limit) teller {
			t.Helper()
			l.Name, l.By = "limit", []string{"user"}
			r, err := NewRule(&policy.Definition{Name: name, Limits: []weir.Limit{l}, WarnPercents: []int{80}}, e)
			if err != nil {
				t.Fatal(err)
			}
			return teller{t, r}
		}
		r := rule("bucket", weir.Limit{Kind: weir.Bucket, Max: 60, Window: time.Minute, Burst: 10}) // fills in 10 s
		r.warns(check, 0, "user=u", 7, "")
		r.warns(check, 0, "user=u", 1, "limit")
		r.warns(check, 2*time.Second, "user=u", 1, "") // 6 are missing
		r.warns(check, 2*time.Second, "user=u", 3, "limit")
		r.warns(check, 3*time.Second, "user=u", 1, "")

		r = rule("held", weir.Limit{Kind: weir.Concurrency, Max: 5, MaxHold: 30 * time.Second})
		r.warns(check, 0, "user=u", 3, "")
		r.warns(check, time.Second, "user=u", 1, "limit")
		r.warns(check, 30*time.Second, "user=u", 3, "limit")
		r.warns(check, 31*time.Second, "user=u", 1, "limit")

		r = rule("day", weir.Limit{Kind: weir.Fixed, Max: 5, Period: weir.Day, Zone: "Europe/Berlin"})
		r.warns(check, 22*time.Hour, "user=u", 4, "limit")
		r.warns(check, 23*time.Hour-us, "user=u", 1, "")
		r.warns(check, 23*time.Hour, "user=u", 4, "limit") // midnight in Berlin
	})
}

// TestReplayedGrantHasNoWarning: a repeated idempotency key takes no units.
func TestReplayedGrantHasNoWarning(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, warningRule(t, "rolling", e)}
		r.warnsID(check, 0, "user=u", 8, "first", "limit")
		r.warnsID(check, time.Second, "user=u", 8, "first", "")
		r.warnsID(check, time.Second, "user=u", 1, "second", "")
	})
}

// TestRefundedUseWarnsAgain: after a refund or a reset the next grant that reaches the share
// carries a warning.
func TestRefundedUseWarnsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, warningRule(t, "rolling", e)}
		o := r.warns(check, 0, "user=u", 8, "limit")
		if n, err := o.Limiter.At(start).Refund(context.Background(), weir.K("u"), o.At, 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		r.warns(check, 0, "user=u", 1, "limit")
		if err := reset(r.Rule, weir.K("u")); err != nil {
			t.Fatal(err)
		}
		r.warns(check, 0, "user=u", 7, "")
		r.warns(check, 0, "user=u", 1, "limit")
	})
}

// counted is an engine that counts its calls.
type counted struct {
	engine.Engine
	calls int
}

func (e *counted) Do(ctx context.Context, calls []engine.Call) {
	e.calls++
	e.Engine.Do(ctx, calls)
}

// TestWarningsCostNoCall: one call of the engine decides, with a warning or without.
func TestWarningsCostNoCall(t *testing.T) {
	for name, words := range map[string]string{"plain": "user=u", "rolling": "user=u", "both": "user=u tenant=t"} {
		e := &counted{Engine: weir.NewMemory()}
		r := teller{t, warningRule(t, name, e)}
		want := map[string]string{"rolling": "limit", "both": "user tenant"}[name]
		r.warns(check, 0, words, 7, "")
		r.warns(check, 0, words, 1, want)
		if e.calls != 2 {
			t.Errorf("%s: %d calls of the engine for two grants", name, e.calls)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{"plain", "rolling"} {
		b.Run(name, func(b *testing.B) {
			r := warningRule(b, name, weir.NewMemory())
			a := Request{Target: Target{weir.K("u"), 0}, Op: check, N: 1}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Decide(context.Background(), &a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
