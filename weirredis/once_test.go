package weirredis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestOperationKeys: what was recorded is known for as long as it may be asked for
// again, in the slot of its histories; what was refused leaves no key (R4, R13).
func TestOperationKeys(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, connTo(t, s))
	for _, window := range []time.Duration{time.Second, time.Hour} {
		l := limiter(t, e, "op"+window.String(), weir.AllOrNothing, perUser(1, window))
		key := weirredis.OperationKey(l.Plan(), weir.K("u"), "first", false)
		must(t)(l.AllowOnce(ctx, weir.K("u"), 1, "first"))
		least := l.Plan().IdempotencyTTL()
		if got := ttl(t, s, key); got < least-500*time.Millisecond || got > least+5*time.Second {
			t.Errorf("window %v: the operation lives %v, want %v", window, got, least)
		}
		if d := must(t)(l.AllowOnce(ctx, weir.K("u"), 1, "second")); d.Allowed {
			t.Errorf("window %v: a second unit was granted", window)
		}
		if n := s.Must(t, "EXISTS", weirredis.OperationKey(l.Plan(), weir.K("u"), "second", false)); n != "0" {
			t.Errorf("window %v: a refusal left a key behind", window)
		}
		must(t)(l.At(nine).Decide(ctx, weir.K("v"), weir.Request{N: 1, ID: "virtual"}))
		if got := ttl(t, s, weirredis.OperationKey(l.Plan(), weir.K("v"), "virtual", false)); got < time.Hour+least-time.Minute {
			t.Errorf("window %v: an operation of the caller's time lives %v", window, got)
		}
	}
}

// TestOperationsShareTheSlot: all keys of a call hash to one slot, and no two
// operations share a key (R14).
func TestOperationsShareTheSlot(t *testing.T) {
	p, err := weir.Policy{Name: "p", Limits: []weir.Limit{
		{Name: "a", Max: 1, Window: time.Second, By: []string{"user", "ip"}}, {Name: "b", Max: 1, Window: time.Second, By: []string{"ip"}}}}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, k := range []weir.Key{weir.K("u", "1"), weir.K("u", "2"), weir.K("u:1", ""), weir.K("", "u:1"), weir.K("}", "{")} {
		for _, id := range []string{"x", "1:x", "x:", ":", "}", "{x}"} {
			key := weirredis.OperationKey(p, k, id, true)
			if seen[key] {
				t.Errorf("two operations share the key %q", key)
			}
			seen[key] = true
			for _, history := range weirredis.Keys(p, k, true) {
				if weirredis.Slot(key) != weirredis.Slot(history) {
					t.Errorf("%q and %q are in two slots", key, history)
				}
			}
		}
	}
}

// TestOperationIsNotAnsweredFromMemory: a denial that is remembered says nothing of
// an operation that was granted before it.
func TestOperationIsNotAnsweredFromMemory(t *testing.T) {
	e := newEngine(t, rueidisConn(t))
	l := limiter(t, e, "recalled", weir.AllOrNothing, perUser(1, time.Hour))
	first := must(t)(l.AllowOnce(ctx, weir.K("u"), 1, "op"))
	if d := must(t)(l.Allow(ctx, weir.K("u"))); d.Allowed || e.Cached() == 0 {
		t.Fatalf("got %+v and %d denials in memory, want a denial that is remembered", d, e.Cached())
	}
	first.Replayed = true
	if d := must(t)(l.AllowOnce(ctx, weir.K("u"), 1, "op")); d != first {
		t.Errorf("made again: got %+v, want %+v", d, first)
	}
}

// TestForeignOperation: what something else stored under the key of an operation is
// left as it is, and nothing is decided.
func TestForeignOperation(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, rueidisConn(t)), "foreign-op", weir.AllOrNothing, perUser(5, time.Hour))
	key := weirredis.OperationKey(l.Plan(), weir.K("u"), "op", false)
	for _, set := range [][]string{{"SET", key, ""}, {"SET", key, "hello"}, {"SET", key, "\x01short"}, {"SET", key, "\x02"}, {"HSET", key, "f", "v"}} {
		s.Do("DEL", key)
		s.Must(t, set...)
		before := s.Must(t, "DUMP", key)
		if _, err := l.AllowOnce(ctx, weir.K("u"), 1, "op"); !errors.Is(err, weirredis.ErrState) {
			t.Errorf("%q: got %v, want ErrState", set, err)
		}
		if s.Must(t, "DUMP", key) != before {
			t.Errorf("%q: it was changed", set)
		}
	}
	if n, err := l.Count(ctx, weir.K("u"), "user", time.Hour); n != 0 || err != nil {
		t.Errorf("%d units were recorded (%v), want none", n, err)
	}
}
