package enforce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
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
  tiers:
    limit: 10 per minute per user
    warn: 80%
    plan-by: tier
    plans: {pro: 20 per minute}
  costly:
    limits: {tokens: {max: 100, window: minute, per: user, warn: 80%}}
    costs: {tokens: 50}
  plain: {limit: 10 per minute per user}
`

func warningRule(t testing.TB, name string, e weir.Engine) *Rule {
	t.Helper()
	f, err := policy.Parse("weir.yaml", []byte(warning))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRule(f.Policy(name), e)
	if err != nil {
		t.Fatal(err)
	}
	return r
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

// TestFirstGrantAtTheShareWarns: of each key and window the first grant at or above the
// share carries the warning. No other does.
func TestFirstGrantAtTheShareWarns(t *testing.T) {
	for name, trace := range map[string]func(r teller){
		"rolling": func(r teller) {
			r.warns(check, 0, "user=u", 7, "")
			r.warns(peek, 0, "user=u", 3, "")
			r.warns(record, 0, "user=v", 9, "") // a record is no grant
			r.warns(check, time.Second, "user=u", 1, "limit")
			r.warns(check, time.Second, "user=u", 1, "")
			r.warns(check, time.Second, "user=u", 2, "") // denied
			r.warns(check, 2*time.Second, "user=u", 1, "")
			r.warns(check, 2*time.Second, "user=v", 1, "limit")
			r.warns(check, time.Minute, "user=u", 6, "")
			r.warns(check, time.Minute+time.Second-us, "user=u", 1, "")
			r.warns(check, time.Minute+time.Second, "user=u", 1, "limit") // exactly a window later
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
			r.warns(check, 0, "user=u", 50, "limit")
			r.warns(check, 1, "user=u", 50, "")
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
		"tiers": func(r teller) {
			r.warns(check, 0, "user=u tier=pro", 15, "")
			r.warns(check, 0, "user=u tier=pro", 1, "limit")
			r.warns(check, 0, "user=u tier=pro", 1, "")
			r.warns(check, 0, "user=v", 8, "limit")
		},
		"costly": func(r teller) {
			r.warns(check, 0, "user=u", 1, "")
			r.warns(check, 0, "user=u", 1, "tokens")
		},
		"plain": func(r teller) { r.warns(check, 0, "user=u", 10, "") },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e weir.Engine) { trace(teller{t, warningRule(t, name, e)}) })
		})
	}
}

// TestBucketsAndHoldsWarn: a bucket warns at most once in the time in which it fills, a
// limit of holds at most once in the time of a hold, a period once each.
func TestBucketsAndHoldsWarn(t *testing.T) {
	onEach(t, func(t *testing.T, e weir.Engine) {
		rule := func(name string, l weir.Limit) teller {
			t.Helper()
			l.Name, l.By = "limit", []string{"user"}
			r, err := NewRule(&policy.Policy{Policy: weir.Policy{Name: name, Limits: []weir.Limit{l}}, WarnPercents: []int{80}}, e)
			if err != nil {
				t.Fatal(err)
			}
			return teller{t, r}
		}
		r := rule("bucket", weir.Limit{Kind: weir.Bucket, Max: 60, Window: time.Minute, Burst: 10}) // fills in 10 s
		r.warns(check, 0, "user=u", 7, "")
		r.warns(check, 0, "user=u", 1, "limit")
		r.warns(check, 9*time.Second, "user=u", 8, "")
		r.warns(check, 12*time.Second, "user=u", 3, "limit")

		r = rule("held", weir.Limit{Kind: weir.InFlight, Max: 5, Window: 30 * time.Second})
		r.warns(check, 0, "user=u", 3, "")
		r.warns(check, time.Second, "user=u", 1, "limit")
		r.warns(check, 30*time.Second, "user=u", 3, "")
		r.warns(check, 31*time.Second, "user=u", 1, "limit")

		r = rule("day", weir.Limit{Kind: weir.Calendar, Max: 5, Period: weir.Day, Zone: "Europe/Berlin"})
		r.warns(check, 22*time.Hour, "user=u", 4, "limit")
		r.warns(check, 23*time.Hour-us, "user=u", 1, "")
		r.warns(check, 23*time.Hour, "user=u", 4, "limit") // midnight in Berlin
	})
}

// TestReplayedGrantHasNoNewWarning: a repeated idempotency key changes no mark.
func TestReplayedGrantHasNoNewWarning(t *testing.T) {
	onEach(t, func(t *testing.T, e weir.Engine) {
		r := teller{t, warningRule(t, "rolling", e)}
		r.warnsID(check, 0, "user=u", 8, "first", "limit")
		r.warnsID(check, time.Second, "user=u", 8, "first", "")
		r.warnsID(check, time.Second, "user=u", 1, "second", "")
	})
}

// TestResetForgetsWarnings: after a reset the key warns anew, and other keys do not.
func TestResetForgetsWarnings(t *testing.T) {
	for _, name := range []string{"rolling", "fixed", "firsthit"} {
		onEach(t, func(t *testing.T, e weir.Engine) {
			r := teller{t, warningRule(t, name, e)}
			r.warns(check, 0, "user=u", 8, "limit")
			r.warns(check, 0, "user=v", 8, "limit")
			if err := r.ResetAt(context.Background(), weir.K("u"), start); err != nil {
				t.Fatal(err)
			}
			r.warns(check, 0, "user=u", 7, "")
			r.warns(check, 0, "user=u", 1, "limit")
			r.warns(check, 0, "user=v", 1, "")
		})
	}
}

// marksFail is an engine that cannot decide marks. calls counts all calls.
type marksFail struct {
	weir.Engine
	calls atomic.Int64
}

func (e *marksFail) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	e.calls.Add(1)
	if strings.HasSuffix(p.Name(), ".warn") {
		return weir.Decision{}, errors.New("the store is gone")
	}
	return e.Engine.Decide(ctx, p, k, a)
}

// TestErrorOfAMarkKeepsTheDecision: a grant without its mark is the same grant without a
// warning.
func TestErrorOfAMarkKeepsTheDecision(t *testing.T) {
	for _, name := range []string{"rolling", "both", "shadow"} {
		r, same := warningRule(t, name, &marksFail{Engine: weir.NewMemory()}), warningRule(t, name, weir.NewMemory())
		words := map[string]string{"both": "user=u tenant=t"}[name]
		if words == "" {
			words = "user=u"
		}
		for i := range 12 {
			got := teller{t, r}.warns(check, time.Duration(i)*time.Second, words, 1, "")
			target, _ := subject(t, same, words)
			want, err := same.Decide(context.Background(), &Request{Target: target, N: 1, At: start.Add(time.Duration(i) * time.Second)})
			if err != nil || got.Decision != want.Decision {
				t.Errorf("%s: attempt %d: got %v, want %v, %v", name, i, got.Decision, want.Decision, err)
			}
		}
	}
}

// TestWarningsCostNothingBelowTheShare: one call decides where no limit has reached its
// share, and always in a policy without warnings.
func TestWarningsCostNothingBelowTheShare(t *testing.T) {
	for _, c := range []struct {
		policy string
		n      int64
		calls  int64
	}{{"plain", 10, 1}, {"rolling", 7, 1}, {"rolling", 8, 2}, {"rolling", 11, 1}, {"both", 7, 1}} {
		e := &marksFail{Engine: weir.NewMemory()}
		r := warningRule(t, c.policy, e)
		words := map[string]string{"both": "user=u tenant=t"}[c.policy]
		if words == "" {
			words = "user=u"
		}
		teller{t, r}.warns(check, 0, words, c.n, "")
		if n := e.calls.Load(); n != c.calls {
			t.Errorf("%s, %d units: %d calls of the engine, want %d", c.policy, c.n, n, c.calls)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{"plain", "rolling"} {
		b.Run(name, func(b *testing.B) {
			r := warningRule(b, name, weir.NewMemory())
			a := Request{Target: Target{weir.K("u"), None}, Op: check, N: 1}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Decide(context.Background(), &a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestOneWarningUnderConcurrency: 64 callers on two engines of one store get exactly one
// warning for each key and window.
func TestOneWarningUnderConcurrency(t *testing.T) {
	const window = 50 * time.Millisecond
	for _, kind := range []weir.Kind{weir.Rolling, weir.Calendar, weir.FirstHit} {
		limit := weir.Limit{Name: "limit", Max: 20, Window: window, By: []string{"user"}, Kind: kind}
		p := &policy.Policy{Policy: weir.Policy{Name: "p", Limits: []weir.Limit{limit}}, WarnPercents: []int{80}}
		t.Run("memory/"+kind.String(), func(t *testing.T) {
			e := weir.NewMemory()
			hammerWarnings(t, p, kind, window, []weir.Engine{e, e})
		})
		t.Run("redis/"+kind.String(), func(t *testing.T) {
			s := redistest.Start(t)
			hammerWarnings(t, p, kind, window, []weir.Engine{onRedis(t, s.Addr), onRedis(t, s.Addr)})
		})
	}
}

// grant is a grant at or above the share.
type grant struct {
	at, end int64 // the instant, and the end of its window
	done    int64 // the instant of the answer
	warned  bool
}

// hammerWarnings lets 64 callers attempt until both of two keys have reached the share in
// ten spans of a window, for 600 windows at most, and checks the warnings of each key.
func hammerWarnings(t *testing.T, p *policy.Policy, kind weir.Kind, window time.Duration, engines []weir.Engine) {
	var rules []*Rule
	for _, e := range engines {
		r, err := NewRule(p, e)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	var mu sync.Mutex // protects grants
	grants := map[string][]grant{}
	spans := map[string]map[int64]bool{"u": {}, "v": {}} // in which the key reached the share
	var begun atomic.Int64
	var enough atomic.Bool
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			r, user := rules[i%len(rules)], []string{"u", "v"}[i/2%2]
			for !enough.Load() {
				states := make([]weir.LimitState, 1)
				o, err := r.Decide(context.Background(), &Request{Target: Target{weir.K(user), None}, Op: check, N: 1, States: states})
				if err != nil {
					t.Error(err)
					return
				}
				d := &o.Decision
				begun.CompareAndSwap(0, d.At.UnixMicro())
				switch {
				case d.At.UnixMicro() > begun.Load()+600*window.Microseconds():
					return
				case d.Allowed && states[0].Used >= 16:
					at := d.At.UnixMicro()
					end := windowEnd(&r.base.Limiter.Plan().Limits()[0], at, states[0].ResetAfter.Microseconds())
					mu.Lock()
					grants[user] = append(grants[user], grant{at, end, time.Now().UnixMicro(), len(o.Applied.Warnings) > 0})
					spans[user][at/window.Microseconds()] = true
					enough.Store(len(spans["u"]) >= 10 && len(spans["v"]) >= 10)
					mu.Unlock()
				case len(o.Applied.Warnings) > 0:
					t.Errorf("a warning at %v, with %+v", d, states[0])
				}
			}
		})
	}
	callers.Wait()
	for user, all := range grants {
		slices.SortFunc(all, func(a, b grant) int { return int(a.at - b.at) })
		if kind == weir.Rolling {
			checkRollingWarnings(t, user, all, window.Microseconds())
		} else {
			checkWindowWarnings(t, user, all)
		}
	}
	if len(grants) != 2 {
		t.Errorf("%d keys reached their share, want 2", len(grants))
	}
}

// checkWindowWarnings: each window with a grant at the share has exactly one warning.
func checkWindowWarnings(t *testing.T, user string, all []grant) {
	t.Helper()
	warned := map[int64]int{}
	for _, g := range all {
		warned[g.end] += map[bool]int{true: 1}[g.warned]
	}
	for end, n := range warned {
		if n != 1 {
			t.Errorf("%s: %d warnings in the window that ends at %d, want 1", user, n, end)
		}
	}
	if len(warned) < 5 {
		t.Errorf("%s: %d windows reached the share, want at least 5", user, len(warned))
	}
}

// checkRollingWarnings: two warnings are at least a window apart, and each grant at the
// share has a warning less than a window away. On a busy machine more than a window can pass
// before the answer; then a later grant may have the warning.
func checkRollingWarnings(t *testing.T, user string, all []grant, window int64) {
	t.Helper()
	var warned []int64
	for _, g := range all {
		if g.warned {
			if n := len(warned); n > 0 && g.at-warned[n-1] < window {
				t.Errorf("%s: warnings %d µs apart, want %d or more", user, g.at-warned[n-1], window)
			}
			warned = append(warned, g.at)
		}
	}
	for _, g := range all {
		near := func(w int64) bool { return g.at-window < w && (w < g.at+window || w <= g.done) }
		if !slices.ContainsFunc(warned, near) {
			t.Errorf("%s: a grant at %d without a warning nearby: %v", user, g.at, warned)
		}
	}
	if len(warned) < 5 {
		t.Errorf("%s: %d warnings, want at least 5", user, len(warned))
	}
}
