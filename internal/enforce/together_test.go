package enforce

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/answer"
)

// item returns an attempt of the rule of that name.
func itemOf(rules []*Rule, name, user string, n int64) Item {
	return Item{Rule: named(rules, name), Request: Request{Target: Target{Key: weir.K(user)}, N: n}}
}

// TestTogether: items are charged all or none. A shadow denies nothing, and is charged only
// with the others.
func TestTogether(t *testing.T) {
	ctx := context.Background()
	rules := batchRules(t, fallback.New(weir.NewMemory(), fallback.Deny))
	gold := itemOf(rules, "plans", "a", 3)
	gold.Plan = 1
	items := []Item{itemOf(rules, "shadow", "a", 3), itemOf(rules, "plain", "a", 2), gold, itemOf(rules, "warns", "a", 2), itemOf(rules, "plans", "c", 1)}
	if err := DecideTogether(ctx, items); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		o := &items[i].Outcome
		if !o.Allowed || o.Granted != items[i].N || items[i].Err != nil || o.variation == nil || o.Applied.Shadow != (i == 0) || (o.Applied.Warnings != nil) != (i == 3) {
			t.Errorf("item %d: %+v", i, o)
		}
	}
	if o := &items[0].Outcome; o.Applied.Would.Allowed || o.Applied.Would.Limit == "" {
		t.Errorf("the shadow: %+v, want a denial that is not enforced", o.Applied)
	}
	denied := []Item{itemOf(rules, "plain", "a", 1), itemOf(rules, "shadow", "b", 2), itemOf(rules, "plain", "b", 4), itemOf(rules, "warns", "a", 1)}
	if err := DecideTogether(ctx, denied); err != nil {
		t.Fatal(err)
	}
	for i := range denied {
		o := &denied[i].Outcome
		if o.Allowed || o.Granted != 0 || o.RetryAfter != weir.Never || (o.Limit != "") != (i == 2) || o.Applied.Warnings != nil || o.Applied.Shadow != (i == 1) {
			t.Errorf("denied item %d: %+v", i, o)
		}
	}
	if !denied[1].Outcome.Applied.Would.Allowed {
		t.Error("the shadow has room")
	}
	shadows := []Item{itemOf(rules, "shadow", "b", 2), itemOf(rules, "shadow", "b", 1)}
	if err := DecideTogether(ctx, shadows); err != nil || !shadows[0].Outcome.Applied.Would.Allowed || shadows[1].Outcome.Applied.Would.Allowed || !shadows[1].Outcome.Allowed {
		t.Errorf("%+v, %v; want a shadow that was not charged before", shadows, err)
	}
}

// TestTogetherWarns: the use that counts is that after all calls, and before the first (R7).
func TestTogetherWarns(t *testing.T) {
	rules := batchRules(t, fallback.New(weir.NewMemory(), fallback.Deny))
	for _, step := range []struct {
		users string
		warns []bool
	}{
		{"aab", []bool{true, true, false}}, {"ab", []bool{false, true}},
		{"cd", []bool{false, false}}, {"cc", []bool{true, true}}, // the first of both reaches the share
	} {
		var items []Item
		for _, user := range step.users {
			items = append(items, itemOf(rules, "warns", string(user), 1))
		}
		items = append(items, itemOf(rules, "plain", step.users, 1))
		if err := DecideTogether(context.Background(), items); err != nil {
			t.Fatal(err)
		}
		for i, want := range append(step.warns, false) {
			if got := items[i].Outcome.Applied.Warnings; (got != nil) != want {
				t.Errorf("%s: item %d has the warnings %q, want one: %v", step.users, i, got, want)
			}
		}
	}
}

// TestTogetherRejects: a policy that cannot be decided with others is an error of its item,
// and so is any other bad input. Nothing changes.
func TestTogetherRejects(t *testing.T) {
	ctx := context.Background()
	m := weir.NewMemory()
	rules := batchRules(t, fallback.New(m, fallback.Deny))
	key := itemOf(rules, "shadow", "a", 1)
	key.Key = weir.K("a", "b")
	before := itemOf(rules, "plain", "a", 1)
	before.Err = errors.New("before")
	id := itemOf(rules, "plain", "b", 1)
	id.ID = "op"
	open := itemOf(rules, "part", "a", 1)
	other := *open.Rule.Definition
	var err error
	if open.Rule, err = NewRule(&other, weir.NewMemory()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		item Item
		text string
	}{
		"reported": {itemOf(rules, "reported", "a", 1), `policy "reported" counts reported units`},
		"store":    {open, `policy "part" has another store than policy "plain"`},
		"a key":    {key, "bad key"},
		"an error": {before, "before"},
		"an id":    {id, "idempotency key"},
		"units":    {itemOf(rules, "plain", "a", weir.MaxUnits), "earlier call"},
	} {
		items := []Item{itemOf(rules, "shadow", "a", 1), itemOf(rules, "plain", "a", 1), c.item}
		var of *weir.CallError
		err := DecideTogether(ctx, items)
		if !errors.As(err, &of) || of.Call != 2 || !strings.Contains(err.Error(), c.text) || items[1].Outcome.variation != nil {
			t.Errorf("%s: %v, want %q of item 2", name, err, c.text)
		}
	}
	if m.Len() != 0 {
		t.Errorf("%d histories, want none", m.Len())
	}
	out := batchRules(t, down{weir.NewMemory()})
	items := []Item{itemOf(out, "plain", "a", 1), itemOf(out, "shadow", "a", 1)}
	if err := DecideTogether(ctx, items); !errors.Is(err, errDown) || items[1].Outcome.Allowed {
		t.Errorf("without the store: %v, %+v", err, items)
	}
}

// TestTogetherBlocks: a running block denies all items until it ends, to the microsecond. A
// denial by a limit that blocks begins a block, and one by others alone does not.
func TestTogetherBlocks(t *testing.T) {
	rules := batchRules(t, weir.NewMemory())
	decide := func(after time.Duration, items ...Item) []Item {
		t.Helper()
		for i := range items {
			items[i].At = start.Add(after)
		}
		if err := DecideTogether(context.Background(), items); err != nil {
			t.Fatal(err)
		}
		return items
	}
	blocked := func(items []Item, wait time.Duration, until time.Time) {
		t.Helper()
		for i, want := range []Outcome{{}, {Decision: weir.Decision{Limit: "limit"}, Applied: answer.Applied{Blocked: until}}} {
			o := &items[i].Outcome
			if o.Allowed || o.Granted != 0 || o.RetryAfter != wait || o.Limit != want.Limit || !o.Applied.Blocked.Equal(want.Applied.Blocked) {
				t.Errorf("item %d: %+v, %+v; want limit %q, a wait of %v and a block until %v", i, o.Decision, o.Applied, want.Limit, wait, want.Applied.Blocked)
			}
		}
	}
	items := decide(0, itemOf(rules, "plain", "a", 4), itemOf(rules, "blocks", "a", 1))
	if o := &items[1].Outcome; o.Allowed || o.Limit != "" || !o.Applied.Blocked.IsZero() {
		t.Errorf("denied by another item alone: %+v", o)
	}
	if items = decide(0, itemOf(rules, "plain", "a", 1), itemOf(rules, "blocks", "a", 2)); !items[0].Outcome.Allowed || items[1].Outcome.Remaining != 0 {
		t.Errorf("no block has begun: %+v, %+v", items[0].Outcome, items[1].Outcome)
	}
	if items = decide(0, itemOf(rules, "plain", "a", 4), itemOf(rules, "blocks", "a", 0)); items[0].Outcome.Allowed || !items[1].Outcome.Applied.Blocked.IsZero() {
		t.Errorf("a peek has begun a block: %+v", items[1].Outcome)
	}
	over := itemOf(rules, "blocks", "d", 3)
	over.Op, over.At = weir.OpRecord, start
	if _, err := over.Rule.Decide(context.Background(), &over.Request); err != nil {
		t.Fatal(err)
	}
	items = decide(0, itemOf(rules, "plain", "d", 1), itemOf(rules, "blocks", "d", 0))
	if o := &items[1].Outcome; o.Allowed || o.Limit != "limit" || !o.Applied.Blocked.IsZero() || o.RetryAfter != time.Minute {
		t.Errorf("a peek that its own limit denies: %+v", o)
	}
	const until = 5*time.Minute + time.Second
	blocked(decide(time.Second, itemOf(rules, "plain", "a", 1), itemOf(rules, "blocks", "a", 1)), 5*time.Minute, start.Add(until))
	blocked(decide(2*time.Second, itemOf(rules, "plain", "c", 1), itemOf(rules, "blocks", "a", 1)), until-2*time.Second, start.Add(until))
	blocked(decide(2*time.Second, itemOf(rules, "plain", "c", 1), itemOf(rules, "blocks", "a", 0)), until-2*time.Second, start.Add(until))
	items = decide(2*time.Second, itemOf(rules, "plain", "c", 4), itemOf(rules, "blocks", "a", 1))
	if o := &items[1].Outcome; o.RetryAfter != weir.Never || items[0].Outcome.RetryAfter != weir.Never || !o.Applied.Blocked.Equal(start.Add(until)) {
		t.Errorf("never, and blocked: %+v", o)
	}
	one := itemOf(rules, "blocks", "a", 1)
	one.At = start.Add(3 * time.Second)
	if o, err := one.Rule.Decide(context.Background(), &one.Request); err != nil || o.Allowed || !o.Applied.Blocked.Equal(start.Add(until)) {
		t.Errorf("one by one: %+v, %v", o, err)
	}
	blocked(decide(until-time.Microsecond, itemOf(rules, "plain", "c", 3), itemOf(rules, "blocks", "a", 1)), time.Microsecond, start.Add(until))
	for i, it := range decide(until, itemOf(rules, "plain", "c", 3), itemOf(rules, "blocks", "a", 1), itemOf(rules, "blocks", "b", 0), itemOf(rules, "reported", "a", 0)) {
		if o := &it.Outcome; !o.Allowed || o.Granted != it.N {
			t.Errorf("after the block: item %d: %+v", i, o)
		}
	}
}

// TestTogetherWaitsAreExact: with blocks, too, the calls pass at the end of their wait and not
// a microsecond sooner (R8).
func TestTogetherWaitsAreExact(t *testing.T) {
	source := `version: 1
policies:
  a: {limits: {x: "3 per 5ms per user, then block 9ms", y: "5 per 20ms, 1ms apart"}}
  b: {limits: {x: "2 per 4ms per user", y: "4 per 8ms per user per tenant, then block 3ms"}}
`
	type step struct {
		at    time.Time
		users []string
		units []int64
	}
	play := func(steps []step) (last []Item) {
		rules := rulesOf(t, source, weir.NewMemory())
		for _, s := range steps {
			last = nil
			for i, user := range s.users {
				it := Item{Rule: rules[i%2], Request: Request{Target: Target{Key: weir.K(user)}, N: s.units[i], At: s.at}}
				if i%2 == 1 {
					it.Key = weir.K(user, "t")
				}
				last = append(last, it)
			}
			if err := DecideTogether(context.Background(), last); err != nil {
				t.Fatal(err)
			}
		}
		return last
	}
	denied := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 14))
		var steps []step
		now := start
		for range 30 {
			now = now.Add(time.Duration(r.IntN(3000)) * time.Microsecond)
			s := step{at: now}
			for range 1 + r.IntN(4) {
				s.users, s.units = append(s.users, string(rune('a'+r.IntN(2)))), append(s.units, r.Int64N(3))
			}
			steps = append(steps, s)
			whole := play(steps)[0].Outcome.Decision
			if whole.Allowed || whole.RetryAfter == weir.Never {
				continue
			}
			denied++
			for _, sooner := range []time.Duration{0, time.Microsecond} {
				again := s
				again.at = whole.At.Add(whole.RetryAfter - sooner)
				if after := play(append(slices.Clone(steps), again))[0].Outcome; after.Allowed != (sooner == 0) {
					t.Fatalf("seed %d: %v before the end of %v: %+v\n%+v", seed, sooner, whole.RetryAfter, after.Decision, steps)
				}
			}
		}
	}
	if denied < 100 {
		t.Errorf("only %d denials", denied)
	}
}

// unhurried is an engine whose calls take a millisecond each.
type unhurried struct{ engine.Engine }

func (e unhurried) Do(ctx context.Context, calls []engine.Call) {
	time.Sleep(time.Millisecond)
	e.Engine.Do(ctx, calls)
}

// TestTogetherMovesToTheBlock: without an instant, a denial is of the instant at which the last
// of its blocks began, and the wait of all items lasts as long as that block.
func TestTogetherMovesToTheBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := batchRules(t, unhurried{weir.NewMemory()})
		items := []Item{itemOf(rules, "blocks", "a", 2)}
		if err := DecideTogether(context.Background(), items); err != nil || !items[0].Outcome.Allowed {
			t.Fatalf("%+v, %v", items, err)
		}
		items = []Item{itemOf(rules, "plain", "a", 1), itemOf(rules, "blocks", "a", 1), itemOf(rules, "blocks", "a", 1)}
		if err := DecideTogether(context.Background(), items); err != nil {
			t.Fatal(err)
		}
		for i := range items {
			o := &items[i].Outcome
			if now := time.Now(); o.Allowed || !o.At.Equal(now) || o.RetryAfter != 5*time.Minute-time.Millisecond || o.Applied.Blocked.IsZero() != (i == 0) {
				t.Errorf("item %d at %v: %+v, %+v", i, now, o.Decision, o.Applied)
			}
		}
	})
}

// TestTogetherFailsWithTheBlock: if the store fails before a block begins, there is no decision.
func TestTogetherFailsWithTheBlock(t *testing.T) {
	calls := 0
	rules := batchRules(t, &failing{weir.NewMemory(), func() bool { calls++; return calls == 2 }})
	items := []Item{itemOf(rules, "plain", "a", 1), itemOf(rules, "blocks", "a", 3)}
	if err := DecideTogether(context.Background(), items); !errors.Is(err, errDown) || items[0].Outcome.variation != nil || items[1].Outcome.Limit != "" {
		t.Errorf("%v, %+v", err, items)
	}
	if err := DecideTogether(context.Background(), items[:1]); err != nil || items[0].Outcome.Remaining != 2 {
		t.Errorf("%v, %+v; want nothing charged before", err, items[0].Outcome)
	}
}

// TestTogetherOnAnEngineThatCannotBeCompared: it decides the items of one policy, and rejects
// others.
func TestTogetherOnAnEngineThatCannotBeCompared(t *testing.T) {
	rules := batchRules(t, uncomparable{weir.NewMemory(), func() {}})
	items := []Item{itemOf(rules, "plain", "a", 1), itemOf(rules, "plain", "b", 1)}
	if err := DecideTogether(context.Background(), items); err != nil {
		t.Error(err)
	}
	of := new(weir.CallError)
	if err := DecideTogether(context.Background(), append(items, itemOf(rules, "part", "a", 1))); !errors.As(err, &of) || of.Call != 2 {
		t.Errorf("%v, want an error of item 2", err)
	}
}

type uncomparable struct {
	engine.Engine
	_ func()
}

// failing is an engine that fails calls.
type failing struct {
	engine.Engine
	fails func() bool
}

func (e *failing) Do(ctx context.Context, calls []engine.Call) {
	if e.fails() {
		for i := range calls {
			calls[i].Fail(errDown)
		}
	}
	e.Engine.Do(ctx, calls)
}
