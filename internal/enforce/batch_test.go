package enforce

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

// batchRules returns the rules of batches.yaml on an engine.
func batchRules(t *testing.T, e engine.Engine) []*Rule {
	t.Helper()
	return rulesOf(t, traceFile(t, "batches.yaml"), e)
}

// TestBatchesDuringAnOutage: each item is decided by its own policy's mode for outages.
func TestBatchesDuringAnOutage(t *testing.T) {
	const source = `version: 1
policies:
  open: {limit: "3 per minute per user", when-store-is-down: allow}
  closed: {limit: "3 per minute per user", when-store-is-down: deny}
`
	store := weirtest.NewFaulty(weir.NewMemory())
	store.Break(weirtest.Down())
	rules := rulesOf(t, source, fallback.New(store, fallback.Deny))
	var items []Item
	for _, i := range []int{0, 1, 1, 0} {
		items = append(items, Item{Rule: rules[i], Request: Request{Target: Target{weir.K("u"), 0}, Op: check, N: 1}})
	}
	DecideAll(context.Background(), items)
	for i, allowed := range []bool{true, false, false, true} {
		it := &items[i]
		if d := it.Outcome.Decision; d.Allowed != allowed || d.Degraded != allowed || errors.Is(it.Err, weir.ErrUnavailable) == allowed {
			t.Errorf("item %d: %+v, %v; want allowed without the store: %v", i, d, it.Err, allowed)
		}
	}
}

// TestBatchesForgetOutcomesOfAnEarlierUse: an item of a shadow that could not decide has no
// error once it can.
func TestBatchesForgetOutcomesOfAnEarlierUse(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	rules := batchRules(t, fallback.New(store, fallback.Deny))
	items := []Item{{Rule: rules[1], Request: Request{Target: Target{weir.K("u"), 0}, Op: check, N: 1}}}
	store.Break(weirtest.Down())
	DecideAll(context.Background(), items)
	if it := &items[0]; it.Err != nil || it.Outcome.Err == nil || !it.Outcome.Decision.Degraded {
		t.Fatalf("got %+v, %v, want a shadow that could not decide", it.Outcome, it.Err)
	}
	store.Restore()
	DecideAll(context.Background(), items)
	if it := &items[0]; it.Err != nil || it.Outcome.Err != nil || it.Outcome.Decision.Degraded {
		t.Errorf("got %+v, %v, want a decision", it.Outcome, it.Err)
	}
}

// TestBatchesAgreeWithSingleDecisions: batches over all kinds of policies have the outcomes
// of their items one after the other.
func TestBatchesAgreeWithSingleDecisions(t *testing.T) {
	ctx := context.Background()
	batched := batchRules(t, fallback.New(weir.NewMemory(), fallback.Deny))
	single := batchRules(t, weir.NewMemory())
	r := rand.New(rand.NewPCG(1, 1))
	now := at("2027-01-01")
	seen := map[string]int{}
	for range 300 {
		now = now.Add(time.Duration(r.Int64N(20_000_000)) * time.Microsecond)
		items := make([]Item, r.IntN(8)+1)
		which := make([]int, len(items))
		for i := range items {
			which[i] = r.IntN(len(batched))
			values := []string{string(rune('a' + r.IntN(2)))}
			request := Request{Target: Target{Key: weir.K(values...)}, N: r.Int64N(3), At: now, Op: engine.Op(r.IntN(3)), States: make([]weir.LimitState, 1)}
			if batched[which[i]].PlanBy != "" && r.IntN(2) == 0 {
				request.Plan = 0
			}
			if r.IntN(9) == 0 {
				request.Key = weir.K("a", "b")
			}
			items[i] = Item{Rule: batched[which[i]], Request: request}
		}
		DecideAll(ctx, items)
		for i := range items {
			got := &items[i]
			request := got.Request
			request.States = make([]weir.LimitState, 1)
			want, err := single[which[i]].Decide(ctx, &request)
			if (err == nil) != (got.Err == nil) || got.Outcome.Decision != want.Decision || !reflect.DeepEqual(got.Outcome.Applied, want.Applied) ||
				err == nil && request.States[0] != got.States[0] {
				t.Fatalf("item %d, policy %s, %+v:\n got %+v %v\nwant %+v %v", i, got.Rule.Name, got.Request, got.Outcome.Decision, got.Err, want.Decision, err)
			}
			if err != nil {
				continue
			}
			if got.States[0].Name == "" {
				t.Fatalf("item %d, policy %s, %+v: no states", i, got.Rule.Name, got.Request)
			}
			for what, is := range map[string]bool{"denied": !want.Decision.Allowed, "blocked": !want.Applied.Blocked.IsZero(),
				"warned": want.Applied.Warnings != nil, "would be denied": want.Applied.Shadow && !want.Applied.Would.Allowed} {
				if is {
					seen[what]++
				}
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("%v: want some of each", seen)
	}
}

// TestBatchesOfShadowsPassWithoutTheStore: an item of a shadow passes with the reason, and
// an item with an Err is left alone.
func TestBatchesOfShadowsPassWithoutTheStore(t *testing.T) {
	rules := batchRules(t, down)
	before := errors.New("before")
	items := []Item{
		{Rule: rules[0], Request: Request{Target: Target{Key: weir.K("a")}, N: 1}},
		{Rule: rules[1], Request: Request{Target: Target{Key: weir.K("a")}, N: 1}},
		{Err: before},
	}
	DecideAll(context.Background(), items)
	if !errors.Is(items[0].Err, errDown) || items[1].Err != nil || !items[1].Outcome.Decision.Allowed || !errors.Is(items[1].Outcome.Err, errDown) || items[2].Err != before {
		t.Errorf("%+v", items)
	}
}

// TestBatchesReplayIDs: an operation that a batch repeats is decided once (R15).
func TestBatchesReplayIDs(t *testing.T) {
	rules := batchRules(t, weir.NewMemory())
	var items []Item
	for range 2 {
		items = append(items, Item{Rule: rules[0], Request: Request{Target: Target{Key: weir.K("a")}, N: 1, ID: "x"}})
	}
	DecideAll(context.Background(), items)
	if first, second := items[0].Outcome.Decision, items[1].Outcome.Decision; first.Replayed || !second.Replayed || second.Remaining != first.Remaining || items[1].Err != nil {
		t.Errorf("got %+v, then %+v", first, second)
	}
}

// TestBatchesReserve: items of a batch open reservations in its one call of the engine, each with an
// id of its own. One that is denied opens none.
func TestBatchesReserve(t *testing.T) {
	e := &counter{Engine: weir.NewMemory()}
	plain, reported := named(batchRules(t, e), "plain"), named(batchRules(t, e), "reported")
	reserves := func(r *Rule, n int64, id string) Item {
		return Item{Rule: r, Request: Request{Target: Target{Key: weir.K("u")}, N: n, ID: id, Reserve: true, TTL: time.Minute}}
	}
	items := []Item{reserves(plain, 1, ""), reserves(plain, 1, ""), reserves(plain, 2, ""), reserves(plain, 1, "use"), reserves(reported, 1, "")}
	DecideAll(context.Background(), items)
	e.took(t, len(items), "a batch of %d items", len(items))
	ids := map[string]bool{}
	for i, units := range []int64{1, 1, 0, 1, 0} {
		o := &items[i].Outcome
		if o.Reserved.Units != units || (o.ReservedID != "") != (units > 0) || ids[o.ReservedID] && units > 0 {
			t.Errorf("item %d reserved %+v as %q, want %d units and an id of its own", i, o.Reserved, o.ReservedID, units)
		}
		ids[o.ReservedID] = true
	}
	if err := items[4].Err; !errors.Is(err, weir.ErrInput) || items[3].Outcome.ReservedID != "use" {
		t.Errorf("reported: %v; with an id: %q", err, items[3].Outcome.ReservedID)
	}
	for i := range items[:2] {
		settle := Request{Target: items[i].Target, Op: engine.Settle, ID: items[i].Outcome.ReservedID}
		if o, err := plain.Decide(context.Background(), &settle); err != nil || o.Granted != 1 {
			t.Errorf("item %d: settled %+v, %v; want 1 unit back", i, o.Decision, err)
		}
	}
}
