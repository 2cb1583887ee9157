package enforce

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// item returns an attempt of the rule of that name.
func itemOf(rules []*Rule, name, user string, n int64) Item {
	return Item{Rule: named(rules, name), Request: Request{Target: Target{Key: weir.K(user)}, N: n}}
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
	open.Rule, err = NewRule(&other, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		item Item
		text string
	}{
		"reported": {itemOf(rules, "reported", "a", 1), `policy "reported" counts reported units`},
		"store":    {open, `policy "part" is on another engine than policy "plain"`},
		"a key":    {key, "bad key"},
		"an error": {before, "before"},
		"an id":    {id, "idempotency key"},
		"units":    {itemOf(rules, "plain", "a", weir.MaxUnits), "earlier call"},
	} {
		items := []Item{itemOf(rules, "shadow", "a", 1), itemOf(rules, "plain", "a", 1), c.item}
		var of *engine.CallError
		err := DecideTogether(ctx, items)
		if !errors.As(err, &of) || of.Call != 2 || !strings.Contains(err.Error(), c.text) || items[1].Outcome.variation != nil {
			t.Errorf("%s: %v, want %q of item 2", name, err, c.text)
		}
	}
	if m.Stats().Keys != 0 {
		t.Errorf("%d histories, want none", m.Stats().Keys)
	}
	out := batchRules(t, down)
	items := []Item{itemOf(out, "plain", "a", 1), itemOf(out, "shadow", "a", 1)}
	if err := DecideTogether(ctx, items); !errors.Is(err, errDown) || items[1].Outcome.Allowed {
		t.Errorf("without the store: %v, %+v", err, items)
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
			must.Do(t, DecideTogether(context.Background(), last))
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

// TestTogetherOnAnEngineThatCannotBeCompared: it decides the items of one policy, and rejects
// others.
func TestTogetherOnAnEngineThatCannotBeCompared(t *testing.T) {
	rules := batchRules(t, uncomparable{weir.NewMemory(), func() {}})
	items := []Item{itemOf(rules, "plain", "a", 1), itemOf(rules, "plain", "b", 1)}
	must.Do(t, DecideTogether(context.Background(), items))
	of := new(engine.CallError)
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
