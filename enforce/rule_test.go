package enforce

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

const ruleSource = `version: 1
policies:
  api:
    limit: 1 call per minute per user
    plan-by: plan
    plans: {pro: 10 per minute}
    overrides:
      - {for: {user: root}, limit: 100 per minute, until: forever, why: our own}
  trial: {limit: 1 per minute per user, shadow: true}
  login: {limit: "1 per minute per user, then block 1h"}
  jobs: {limit: "1 at once per user, for at most 1m"}
  failures: {limit: 3 per minute per user, count: reported}
`

// TestRuleAppliesTheFile: plans, overrides, shadows and blocks reach the outcome of a Decider.
func TestRuleAppliesTheFile(t *testing.T) {
	s, ctx := newSet(t, ruleSource), context.Background()
	decide := func(name string, values map[string]string) weir.Outcome {
		t.Helper()
		d, err := s.Rule(name).DecideFor(ctx, values, weir.Request{N: 1})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	o := decide("api", map[string]string{"user": "ann"})
	if !o.Allowed || o.Rules != s.Rule("api").Compiled() || o.Key.Value(0) != "ann" || o.Units[0] != "call" || o.States[0].Used != 1 {
		t.Errorf("got %+v", o)
	}
	assert.Equal(t, decide("api", map[string]string{"user": "ann"}).Allowed, false, "a second attempt is granted")
	if o := decide("api", map[string]string{"user": "ann", "plan": "pro"}); !o.Allowed || o.Plan != "pro" || o.Rules.Limits[0].Max != 10 || o.States[0].Remaining != 8 {
		t.Errorf("under a plan: got %+v", o)
	}
	if o := decide("api", map[string]string{"user": "root"}); o.Override != "our own" || o.Remaining != 99 {
		t.Errorf("under an override: got %+v", o)
	}
	decide("trial", map[string]string{"user": "ann"})
	if o := decide("trial", map[string]string{"user": "ann"}); !o.Allowed || !o.Shadow || o.Would.Allowed || o.Would.Limit != "limit" {
		t.Errorf("in a shadow: got %+v", o)
	}
	decide("login", map[string]string{"user": "ann"})
	if o := decide("login", map[string]string{"user": "ann"}); o.Allowed || o.RetryAfter != time.Hour || o.Blocked.Sub(o.At) != time.Hour {
		t.Errorf("blocked: got %+v", o)
	}
}

// TestRuleReserves: units of a rule are held until they are settled, and given back by Cancel.
func TestRuleReserves(t *testing.T) {
	s, ctx, ann := newSet(t, ruleSource), context.Background(), map[string]string{"user": "ann"}
	reserve := func(name string) *weir.Reservation {
		t.Helper()
		held, o, err := s.Rule(name).ReserveFor(ctx, ann, weir.Request{N: 1})
		if err != nil || (held != nil) != (o.Allowed && !(o.Shadow && !o.Would.Allowed)) {
			t.Errorf("%s: got %v, %+v, %v", name, held, o, err)
		}
		return held
	}
	job := reserve("jobs")
	if second := reserve("jobs"); second != nil {
		t.Error("a second hold")
	}
	must.Do(t, job.Done(ctx))
	must.Do(t, reserve("jobs").Done(ctx))
	for _, name := range []string{"api", "trial", "login"} {
		must.Do(t, reserve(name).Cancel(ctx))
		must.Do(t, reserve(name).Done(ctx))
		if held := reserve(name); held != nil {
			t.Errorf("%s: a hold beyond the limit", name)
		}
	}
	login := s.Rule("login")
	for range 2 { // the second one is denied, and begins a block
		if _, _, err := login.ReserveFor(ctx, map[string]string{"user": "bob"}, weir.Request{N: 1, ID: "x"}); err != nil {
			t.Fatal(err)
		}
		if _, err := login.DecideFor(ctx, map[string]string{"user": "bob"}, weir.Request{N: 1}); err != nil {
			t.Fatal(err)
		}
	}
	again, replayed, err := login.ReserveFor(ctx, map[string]string{"user": "bob"}, weir.Request{N: 1, ID: "x"})
	if err != nil || !replayed.Replayed || !replayed.Allowed || again == nil {
		t.Errorf("an id during a block: got %v, %+v, %v; want the reservation of the first grant", again, replayed, err)
	}
	_, _, err = s.Rule("failures").ReserveFor(ctx, ann, weir.Request{N: 1})
	if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "counts reported units") {
		t.Errorf("count: reported: got %v", err)
	}
}

// TestRuleFollowsReloads: a Rule uses the numbers of the file in force, and an error names a
// policy that has gone.
func TestRuleFollowsReloads(t *testing.T) {
	s := newSet(t, "version: 1\npolicies:\n  api: {limit: 1 per minute per user}\n")
	ctx, ann, rule := context.Background(), map[string]string{"user": "ann"}, s.Rule("api")
	reload := func(src string) {
		t.Helper()
		file, err := policy.Parse("weir.yaml", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, s.Reload(file))
	}
	if _, err := rule.DecideFor(ctx, ann, weir.Request{N: 1}); err != nil {
		t.Fatal(err)
	}
	reload("version: 1\npolicies:\n  api: {limit: 3 per minute per user}\n")
	d, err := rule.DecideFor(ctx, ann, weir.Request{N: 1})
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, d.Remaining, 1, "room under the new number")
	reload("version: 1\npolicies:\n  other: {limit: 3 per minute per user}\n")
	_, err = rule.DecideFor(ctx, ann, weir.Request{N: 1})
	if !errors.Is(err, ErrNoPolicy) || !strings.Contains(err.Error(), `"api"`) || rule.Compiled() != nil {
		t.Errorf("got %v, want ErrNoPolicy and no rules", err)
	}
	reload("version: 1\npolicies:\n  api: {limit: 3 per minute per user per ip}\n")
	if _, err := rule.DecideFor(ctx, ann, weir.Request{N: 1}); !errors.Is(err, weir.ErrInput) {
		t.Errorf("got %v, want bad input for the missing ip", err)
	}
}

// TestRuleErrors: names are those of the dimensions and of plan-by, each once.
func TestRuleErrors(t *testing.T) {
	s, ctx := newSet(t, ruleSource), context.Background()
	api := s.Rule("api")
	must.Do(t, api.CheckNames([]string{"user"}))
	must.Do(t, api.CheckNames([]string{"plan", "user"}))
	decide := func(r *Rule, values map[string]string, q weir.Request) error {
		_, err := r.DecideFor(ctx, values, q)
		return err
	}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"missing":        {api.CheckNames([]string{"plan"}), `needs a value for "user"`},
		"unknown":        {api.CheckNames([]string{"user", "ip"}), `no dimension "ip"`},
		"twice":          {api.CheckNames([]string{"user", "user"}), "twice"},
		"plan of others": {s.Rule("trial").CheckNames([]string{"user", "plan"}), `no dimension "plan"`},
		"no policy":      {s.Rule("apy").CheckNames([]string{"user"}), `did you mean "api"?`},
		"0 units":        {decide(api, map[string]string{"user": "ann"}, weir.Request{}), "Peek"},
		"TTL":            {decide(api, map[string]string{"user": "ann"}, weir.Request{N: 1, TTL: time.Second}), "TTL"},
		"states":         {decide(api, map[string]string{"user": "ann"}, weir.Request{N: 1, States: make([]weir.LimitState, 1)}), "Outcome"},
		"nil rule":       {decide(nil, map[string]string{"user": "ann"}, weir.Request{N: 1}), "enforce.Open"},
		"nil set":        {decide((*Set)(nil).Rule("api"), map[string]string{"user": "ann"}, weir.Request{N: 1}), "enforce.Open"},
		"zero set":       {decide(new(Set).Rule("api"), map[string]string{"user": "ann"}, weir.Request{N: 1}), "enforce.Open"},
		"zero rule":      {decide(new(Rule), map[string]string{"user": "ann"}, weir.Request{N: 1}), "enforce.Open"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: got %v, want …%s…", name, c.err, c.says)
		}
	}
}

// TestRuleWaits: MaxWait reaches a policy of a file through a Set, a Decider and a reservation, and a
// shadow delays nobody (R18).
func TestRuleWaits(t *testing.T) {
	s, ctx, ann := newSet(t, ruleSource), context.Background(), map[string]string{"user": "ann"}
	soon := weir.Request{N: 1, MaxWait: time.Hour}
	wantStart := func(call string, o weir.Outcome, err error, least, most time.Duration) {
		t.Helper()
		if err != nil || !o.Allowed || o.StartAfter < least || o.StartAfter > most {
			t.Errorf("%s: got %+v, %v, want a start after %v to %v", call, o.Decision, err, least, most)
		}
	}
	for i, call := range []func() (weir.Outcome, error){
		func() (weir.Outcome, error) { return s.Decide(ctx, "api", ann, soon) },
		func() (weir.Outcome, error) { return s.Rule("api").DecideFor(ctx, ann, soon) },
		func() (weir.Outcome, error) {
			held, o, err := s.Rule("api").ReserveFor(ctx, ann, soon)
			if err == nil {
				must.Do(t, held.Cancel(ctx))
			}
			return o, err
		},
		func() (weir.Outcome, error) { return s.Rule("api").DecideFor(ctx, ann, soon) }, // in its place
	} {
		o, err := call()
		window := time.Duration(min(i, 2)) * time.Minute
		wantStart("api", o, err, max(0, window-time.Minute/2), window)
	}
	for range 2 {
		o, err := s.Rule("trial").DecideFor(ctx, ann, soon)
		wantStart("trial", o, err, 0, 0)
	}
	_, err := s.Decide(ctx, "jobs", ann, soon)
	if !errors.Is(err, &weir.InputError{Field: "wait"}) {
		t.Errorf("under a concurrency limit: got %v, want an input error about the wait", err)
	}
}
