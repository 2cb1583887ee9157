package enforce

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/policy"
)

const source = `version: 1
policies:
  api:
    limits: {requests: 1 per minute per tenant per user, tokens: 100 per minute per tenant}
    plan-by: plan
    plans: {pro: {requests: 10 per minute}, big: {requests: 20 per minute, tokens: 1_000 per minute}}
    overrides:
      - {for: {tenant: acme}, limits: {tokens: 5 per minute}, until: 2026-06-30, why: first}
      - {for: {tenant: acme}, plan: big, until: 2026-12-31, why: second}
      - {for: {user: root}, limits: {requests: 0 per minute}, until: forever, why: third}
      - {for: {user: ann, tenant: acme}, limits: {requests: 2 per minute}, until: forever, why: fourth}
  plans: {limit: 1 per minute per plan, plan-by: plan, plans: {pro: 3 per minute}}
  shadow: {limit: 1 per minute per user, shadow: true}
  login: {limit: 2 per minute per user, count: reported}
  part: {limit: 3 per minute, batch: partial, shadow: true}
`

func rule(t testing.TB, name string, e engine.Engine) *Rule {
	t.Helper()
	f, err := policy.Parse("weir.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		e = weir.NewMemory()
	}
	r, err := NewRule(f.Definition(name), e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reset deletes the histories of a key.
func reset(r *Rule, key weir.Key) error {
	_, err := r.Decide(context.Background(), &Request{Target: Target{key, 0}, Op: engine.Reset})
	return err
}

// subject returns the target of name=value words, and compares both ways to make it.
func subject(t testing.TB, r *Rule, words string) (Target, error) {
	t.Helper()
	values := map[string]string{}
	for _, w := range strings.Fields(words) {
		name, value, _ := strings.Cut(w, "=")
		values[name] = value
	}
	slow, slowErr := r.TargetOf(values)
	fast, err := r.Target(Lookup{Count: len(values),
		Value: func(name string) (string, bool) { v, ok := values[name]; return v, ok },
		Map:   func() map[string]string { return values }})
	if (err == nil) != (slowErr == nil) || err == nil && (fast.Plan != slow.Plan || fast.Key.Len() != slow.Key.Len()) {
		t.Errorf("%s: %+v, %v at once and %+v, %v slowly", words, fast, err, slow, slowErr)
	}
	return fast, err
}

func at(s string) time.Time {
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return d
}

// TestChoose: the numbers that apply to a key at an instant.
func TestChoose(t *testing.T) {
	r := rule(t, "api", nil)
	for _, c := range []struct {
		whom, when       string
		requests, tokens int64
		plan, why        string
	}{
		{"tenant=a user=u", "2026-01-01", 1, 100, "", ""},
		{"tenant=a user=u plan=pro", "2026-01-01", 10, 100, "pro", ""},
		{"tenant=a user=u plan=big", "2026-01-01", 20, 1000, "big", ""},
		{"tenant=a user=u plan=huge", "2026-01-01", 1, 100, "", ""},
		{"tenant=acme user=u", "2026-01-01", 1, 5, "", "first"},
		{"tenant=acme user=u plan=pro", "2026-06-30", 10, 5, "pro", "first"},
		{"tenant=acme user=u plan=pro", "2026-07-01", 20, 1000, "big", "second"},
		{"tenant=acme user=u", "2026-12-31", 20, 1000, "big", "second"},
		{"tenant=acme user=u plan=pro", "2027-01-01", 10, 100, "pro", ""},
		{"tenant=acme user=root", "2026-07-01", 20, 1000, "big", "second"},
		{"tenant=acme user=root", "2027-01-01", 0, 100, "", "third"},
		{"tenant=b user=root plan=big", "2027-01-01", 0, 1000, "big", "third"},
		{"tenant=acme user=ann", "2027-01-01", 2, 100, "", "fourth"},
	} {
		whose, err := subject(t, r, c.whom)
		if err != nil {
			t.Fatal(err)
		}
		v := r.choose(&whose.Key, whose.Plan, at(c.when))
		why := ""
		if v.Override != nil {
			why = v.Override.Why
		}
		if l := v.Limits; l[0].Max != c.requests || l[1].Max != c.tokens || v.Plan != c.plan || why != c.why {
			t.Errorf("%s at %s: %d requests, %d tokens, plan %q, override %q; want %+v", c.whom, c.when, l[0].Max, l[1].Max, v.Plan, why, c)
		}
		if again := r.choose(&whose.Key, whose.Plan, at(c.when)); again != v {
			t.Errorf("%s at %s: chosen anew", c.whom, c.when)
		}
	}
}

// TestPlanOfDimension: a plan may be named by a value that the policy counts by.
func TestPlanOfDimension(t *testing.T) {
	r := rule(t, "plans", nil)
	whose, err := subject(t, r, "plan=pro")
	if err != nil || r.choose(&whose.Key, whose.Plan, time.Time{}).Limits[0].Max != 3 {
		t.Errorf("%+v, %v; want the plan pro", whose, err)
	}
	if s := r.TargetOfKey(weir.K("pro"), 0); s.Plan != whose.Plan {
		t.Errorf("of a key: plan %d, want %d", s.Plan, whose.Plan)
	}
}

func TestBadSubjects(t *testing.T) {
	r := rule(t, "api", nil)
	for words, want := range map[string]string{
		"tenant=a":                  `needs a value for "user"`,
		"tenant=a plan=pro":         `needs a value for "user"`,
		"tenant=a user=u x=y":       `has no dimension "x"`,
		"tenant=a user=u plan=p x=": `has no dimension "x"`,
		"tenant=a user=u plan=" + strings.Repeat("x", 1025): "1025 bytes long",
	} {
		whose, err := subject(t, r, words)
		if !errors.Is(err, &weir.InputError{Field: "key"}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %+v, %v; want an error that holds %s", words, whose, err, want)
		}
	}
}

// TestHistoryStays: a key that changes its plan keeps its used units (R12).
func TestHistoryStays(t *testing.T) {
	r := rule(t, "api", nil)
	decide := func(words string, n int64) weir.Decision {
		t.Helper()
		whose, err := subject(t, r, words)
		if err != nil {
			t.Fatal(err)
		}
		o, err := r.Decide(context.Background(), &Request{Target: whose, N: n, At: at("2026-01-01")})
		if err != nil {
			t.Fatal(err)
		}
		return o.Decision
	}
	if d := decide("tenant=a user=u plan=pro", 9); !d.Allowed || d.Remaining != 1 {
		t.Errorf("9 of 10 by plan pro: %+v", d)
	}
	if d := decide("tenant=a user=u", 1); d.Allowed || d.Remaining != -8 {
		t.Errorf("then 1 without a plan: %+v, want a denial with 8 too many", d)
	}
	if d := decide("tenant=a user=u plan=big", 11); !d.Allowed {
		t.Errorf("then 11 more by a plan of 20: %+v", d)
	}
}

// down is an engine that always fails.
type down struct{ engine.Engine }

var errDown = errors.New("the store is out")

func (down) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Fail(errDown)
	}
}

// TestShadow: a shadow counts, allows everything and reports its decision. An outage
// stops no caller, and bad input is an error.
func TestShadow(t *testing.T) {
	r := rule(t, "shadow", nil)
	ask := Request{Target: r.TargetOfKey(weir.K("u"), 0), N: 1, At: at("2026-01-01")}
	for i, would := range []bool{true, false, false} {
		o, err := r.Decide(context.Background(), &ask)
		if d := o.Decision; err != nil || !d.Allowed || d.Granted != 1 || d.RetryAfter != 0 || d.Limit != "" ||
			!o.Applied.Shadow || o.Applied.Would.Allowed != would || d.Remaining != 0 {
			t.Errorf("attempt %d: %+v, %v; want it to pass and would=%v", i, o, err, would)
		}
	}
	ask.N = -1
	if o, err := r.Decide(context.Background(), &ask); !errors.Is(err, &weir.InputError{Field: "units"}) {
		t.Errorf("-1 units: %+v, %v", o, err)
	}
	r, ask.N = rule(t, "shadow", down{}), 2
	if o, err := r.Decide(context.Background(), &ask); err != nil || !errors.Is(o.Err, errDown) || !o.Decision.Allowed || o.Decision.Granted != 2 || !o.Decision.Degraded {
		t.Errorf("a store that is away: %+v, %v", o, err)
	}
	ask.Op = weir.OpRecord
	if _, err := r.Decide(context.Background(), &ask); !errors.Is(err, errDown) {
		t.Errorf("a record that was lost: %v, want an error", err)
	}
}

// TestReported: attempts are peeks, records are charged.
func TestReported(t *testing.T) {
	r := rule(t, "login", nil)
	whose := r.TargetOfKey(weir.K("u"), 0)
	decide := func(op weir.Op) weir.Decision {
		t.Helper()
		o, err := r.Decide(context.Background(), &Request{Target: whose, Op: op, N: 1, At: at("2026-01-01")})
		if err != nil {
			t.Fatal(err)
		}
		return o.Decision
	}
	for range 5 {
		if d := decide(weir.OpAttempt); !d.Allowed || d.Remaining != 2 {
			t.Errorf("an attempt: %+v", d)
		}
	}
	decide(weir.OpRecord)
	decide(weir.OpRecord)
	if d := decide(weir.OpAttempt); d.Allowed || d.RetryAfter != time.Minute {
		t.Errorf("after two reports: %+v, want a denial for a minute", d)
	}
}

// TestConcurrently: concurrent first uses of a variation share one history.
func TestConcurrently(t *testing.T) {
	r := rule(t, "api", nil)
	var wg sync.WaitGroup
	var granted [8]int64
	for i := range granted {
		wg.Go(func() {
			for range 50 {
				whose := r.TargetOfKey(weir.K("acme", "u"), i%3-1)
				o, err := r.Decide(context.Background(), &Request{Target: whose, N: 1, At: at("2026-07-01")})
				if err != nil {
					t.Error(err)
				}
				granted[i] += o.Decision.Granted
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for _, n := range granted {
		sum += n
	}
	if sum != 20 {
		t.Errorf("%d granted by one history under a plan of 20", sum)
	}
}

// TestAllocations: choosing a variation allocates nothing.
func TestAllocations(t *testing.T) {
	r := rule(t, "api", nil)
	ctx, ask := context.Background(), Request{Target: r.TargetOfKey(weir.K("acme", "u"), 0), N: 0, At: at("2026-07-01")}
	r.Decide(ctx, &ask)
	if n := testing.AllocsPerRun(100, func() { r.Decide(ctx, &ask) }); n != 0 {
		t.Errorf("%v allocations by an override, want 0", n)
	}
}
