package enforce

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

// nowSource has a policy for each way through this package.
const nowSource = `version: 1
policies:
  plain: {limit: "1 per 100ms per user"}
  shadow: {limit: "1 per 100ms per user", shadow: true}
  reported: {limit: "1 per 100ms per user", count: reported}
  blocks: {limit: "1 per 100ms per user, then block 1s"}
  warns: {limit: "1 per 100ms per user", warn: 50%}
  open: {limit: "1 per 100ms per user", when-store-is-down: allow}
`

// TestRequestsWithoutAnInstant: the zero At is now, in every form and policy, with the store
// and without it.
func TestRequestsWithoutAnInstant(t *testing.T) {
	memory, ctx := weir.NewMemory(), context.Background()
	store := weirtest.NewFaulty(memory)
	s := newSet(t, nowSource, fallback.New(store, fallback.Deny))
	r := weir.Request{N: 1}
	forms := map[string]func(rule *Rule, user string) (Outcome, error){
		"Set.Decide": func(rule *Rule, user string) (Outcome, error) {
			return s.Decide(ctx, rule.Name, Values{"user": user}, r)
		},
		"Rule.Decide": func(rule *Rule, user string) (Outcome, error) {
			return rule.Decide(ctx, &Request{Target: rule.TargetOfKey(weir.K(user), 0), N: 1})
		},
		"DecideAll": func(rule *Rule, user string) (Outcome, error) {
			items := []Item{{Rule: rule, Request: Request{Target: rule.TargetOfKey(weir.K(user), 0), N: 1}}}
			DecideAll(ctx, items)
			return items[0].Outcome, items[0].Err
		},
		"DecideTogether": func(rule *Rule, user string) (Outcome, error) {
			items := []Item{{Rule: rule, Request: Request{Target: rule.TargetOfKey(weir.K(user), 0), N: 1}}}
			err := DecideTogether(ctx, items)
			return items[0].Outcome, err
		},
	}
	decides := func(form, policy string) {
		t.Helper()
		rule, err := s.Version().Rule(policy)
		if err != nil {
			t.Fatal(err)
		}
		before := clockOf(memory)
		o, err := forms[form](rule, form)
		// The clock of an outage is the process's, which may differ from that of memory.
		slack := time.Duration(0)
		if o.Degraded {
			slack = time.Minute
		}
		if d := time.UnixMicro(before).Sub(o.At); err != nil || !o.Allowed || d > slack || time.UnixMicro(clockOf(memory)).Before(o.At.Add(-slack)) {
			t.Errorf("%s of %s: %v at %v, %v; want a grant at %v", form, policy, o.Decision, o.At, err, time.UnixMicro(before))
		}
	}
	for form := range forms {
		for _, r := range s.Version().Rules {
			if (r.Name == "blocks" || r.Name == "reported") && form == "DecideTogether" {
				continue // rejected
			}
			decides(form, r.Name)
		}
	}
	store.Break(weirtest.Down())
	for form := range forms {
		decides(form, "open")
	}
	if _, err := s.Decide(ctx, "shadow", Values{"user": "u"}, weir.Request{N: 1, At: time.UnixMicro(-1)}); !errors.Is(err, weir.ErrInput) {
		t.Errorf("a shadow, before 1970: %v, want bad input", err)
	}
}

// TestGivenInstantIsWholeMicroseconds: without the store a shadow decides at the instant as
// an engine returns it (R1), not at that of the caller with its nanoseconds and its zone.
func TestGivenInstantIsWholeMicroseconds(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	s := newSet(t, nowSource, fallback.New(store, fallback.Deny))
	given := time.Date(2026, 11, 20, 9, 0, 0, 1_999, time.FixedZone("east", 3600))
	decide := func() weir.Decision {
		t.Helper()
		o, err := s.Decide(context.Background(), "shadow", Values{"user": "u"}, weir.Request{N: 1, At: given})
		if err != nil {
			t.Fatal(err)
		}
		return o.Decision
	}
	want := decide()
	store.Break(weirtest.Down())
	if got := decide(); !got.Degraded || got.At != want.At {
		t.Errorf("%v: without the store at %v, with it at %v", given, got.At, want.At)
	}
}

// clockOf reads the clock of an engine, in microseconds since 1970.
func clockOf(e engine.Engine) int64 {
	rules, err := weir.Policy{Name: "clock", Limits: []weir.Limit{weir.PerSecond(1)}}.Compile()
	if err != nil {
		panic(err)
	}
	c := engine.Call{Rules: rules, Op: engine.Peek}
	decideCall(e, &c)
	return c.Result.At.UnixMicro()
}
