package weirredis_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestOperationsAreStoredForTheLongestWindow: a recorded operation is stored until its
// longest window has passed, in the slot of its histories. A denied one stores no key (R4,
// R13).
func TestOperationsAreStoredForTheLongestWindow(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	for _, window := range []time.Duration{time.Second, time.Hour} {
		l := limiter(t, e, "op"+window.String(), weir.AllOrNothing, perUser(1, window))
		key := weirredis.OperationKey(l.Compiled(), weir.K("u"), "first", false)
		before := time.Now()
		must.Get(l.AllowOnce(ctx, weir.K("u"), 1, "first"))(t)
		least := l.Compiled().IdempotencyTTL
		if got := ttl(t, s, key); shorter(got, least, before) || got > least+5*time.Second {
			t.Errorf("window %v: the operation lives %v, want %v", window, got, least)
		}
		assert.Equal(t, must.Get(l.AllowOnce(ctx, weir.K("u"), 1, "second"))(t).Granted, 0, "window %v: grant of a second unit", window)
		assert.Equal(t, s.Must(t, "EXISTS", weirredis.OperationKey(l.Compiled(), weir.K("u"), "second", false)), "0", "window %v: keys of a denial", window)
		must.Get(l.At(nine).Decide(ctx, weir.K("v"), weir.Request{N: 1, ID: "virtual"}))(t)
		if got := ttl(t, s, weirredis.OperationKey(l.Compiled(), weir.K("v"), "virtual", false)); got < time.Hour+least-time.Minute {
			t.Errorf("window %v: an operation of the caller's time lives %v", window, got)
		}
	}
}

// TestOperationsShareTheSlot: all keys of a call hash to one slot, and no two
// operations share a key (R14).
func TestOperationsShareTheSlot(t *testing.T) {
	p := plan(t, weir.Policy{Name: "p", Limits: []weir.Limit{
		{Name: "a", Max: 1, By: []string{"user", "ip"}}, {Name: "b", Max: 1, By: []string{"ip"}}}})
	seen := map[string]bool{}
	for _, k := range []weir.Key{weir.K("u", "1"), weir.K("u", "2"), weir.K("u:1", ""), weir.K("", "u:1"), weir.K("}", "{")} {
		for _, id := range []string{"x", "1:x", "x:", ":", "}", "{x}"} {
			key := weirredis.OperationKey(p, k, id, true)
			if seen[key] {
				t.Errorf("two operations share the key %q", key)
			}
			seen[key] = true
			for _, history := range weirredis.Keys(p, k, true) {
				assert.Equal(t, weirredis.Slot(key), weirredis.Slot(history), "slots of %q and %q", key, history)
			}
		}
	}
}

// TestForeignOperationIsNotChanged: foreign or damaged data under the key of an operation are an
// error that names only this key. They are not changed, and nothing is recorded.
func TestForeignOperationIsNotChanged(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, redisConn(t)), "foreign-op", weir.AllOrNothing, perUser(5, time.Hour))
	key := weirredis.OperationKey(l.Compiled(), weir.K("u"), "op", false)
	must.Get(l.AllowOnce(ctx, weir.K("u"), 1, "op"))(t)
	must.Do(t, l.Reset(ctx, weir.K("u")))
	whole := s.Must(t, "GET", key)
	const reset = 54 // of 7 bytes
	far := whole[:reset] + "\xff" + whole[reset+1:]
	for _, set := range [][]string{{"SET", key, whole + "x"}, {"SET", key, far}, {"SET", key, ""}, {"SET", key, "hello"}, {"SET", key, "\x01short"}, {"SET", key, "\x02"}, {"HSET", key, "f", "v"}} {
		s.Do("DEL", key)
		s.Must(t, set...)
		before := s.Must(t, "DUMP", key)
		assert.Err(l.AllowOnce(ctx, weir.K("u"), 1, "op"))(t, weirredis.ErrState, "under "+strconv.Quote(key)+": ")
		assert.Equal(t, s.Must(t, "DUMP", key), before, "%q: it was changed", set)
	}
	assert.Equal(t, must.Get(l.Count(ctx, weir.K("u"), "user", time.Hour))(t), 0, "units that were recorded")
}

// TestOperationsOfABatchHaveTheirOwnHistories decides operations and other attempts under one and
// two limits in one batch. A second batch replays the operations and charges nothing for them (R15).
func TestOperationsOfABatchHaveTheirOwnHistories(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	one := limiter(t, e, fmt.Sprint("own", time.Now().UnixNano()), weir.AllOrNothing, perUser(9, time.Hour)).Compiled()
	two := limiter(t, e, one.Name+"two", weir.AllOrNothing, perUser(9, time.Hour), weir.Limit{Name: "all", Max: 99, Window: time.Hour}).Compiled()
	for round := range int64(2) {
		calls := []engine.Call{
			{Rules: one, Key: weir.K("a"), N: 1, ID: "1"},
			{Rules: two, Key: weir.K("a"), N: 1, ID: "1"},
			{Rules: one, Key: weir.K("b"), N: 1},
			{Rules: two, Key: weir.K("b"), N: 1},
			{Rules: one, Key: weir.K("c"), N: 1, ID: "2"},
			{Rules: two, Key: weir.K("c"), N: 1},
		}
		e.DecideBatch(ctx, calls)
		for i, c := range calls {
			left := int64(8)
			if c.ID == "" {
				left -= round
			}
			if c.Err != nil || !c.Result.Allowed || c.Result.Remaining != left || c.Result.Replayed != (c.ID != "" && round == 1) {
				t.Errorf("round %d, call %d: got %+v, %v, want %d left", round, i, c.Result, c.Err, left)
			}
		}
	}
}

// TestReplayNamesARemovedLimit: a retry returns the stored decision with the name of the
// limit that bound, even if the policy has lost that limit (R12, R15).
func TestReplayNamesARemovedLimit(t *testing.T) {
	e := newEngine(t, redisConn(t))
	name, key := fmt.Sprint("removed", time.Now().UnixNano()), weir.K("u")
	small := weir.Limit{Name: "small", Max: 1, Window: time.Hour, By: []string{"user"}}
	first := must.Get(limiter(t, e, name, weir.Partial, perUser(9, time.Hour), small).AllowOnce(ctx, key, 2, "id"))(t)
	if first.Granted != 1 || first.Limit != "small" {
		t.Fatalf("got %+v, want one unit, bound by small", first)
	}
	first.Replayed = true
	again := must.Get(limiter(t, e, name, weir.Partial, perUser(9, time.Hour)).AllowOnce(ctx, key, 2, "id"))(t)
	assert.Equal(t, fields(again), fields(first), "without the limit")
}
