package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// inspect inspects a key by a peek of one unit.
func (l *limiter) inspect(t testing.TB, k engine.Key) (engine.Call, []engine.History) {
	t.Helper()
	c := engine.Call{Rules: l.rules, Key: k, Op: engine.Peek, N: 1, States: make([]engine.State, len(l.rules.Limits))}
	if !l.at.IsZero() {
		c.At, c.Given = l.at.UnixMicro(), true
	}
	var h []engine.History
	c.Histories = &h
	if l.memory.Decide(&c); c.Err != nil {
		t.Fatal(c.Err)
	}
	return c, h
}

// TestInspectShowsTheNewest: of many entries the newest are shown, and of many appointments the next.
func TestInspectShowsTheNewest(t *testing.T) {
	for _, window := range []time.Duration{time.Hour, 30 * 24 * time.Hour} { // narrow and packed entries
		l := newLimiter(policy{Name: "p", Limits: []limit{{Name: "l", Max: 1_500, Window: window}}})
		began := time.UnixMicro(1_700_000_000_000_000)
		for i := range 1_500 {
			granted(t, mustAllow(t, l.At(began.Add(time.Duration(i)*time.Millisecond)), K()))
		}
		last := began.Add(2 * time.Second)
		for range 1_200 {
			if r := mustDo(t, l.At(last), K(), engine.Call{N: 1, MaxWait: 2 * window.Microseconds()}); r.StartAfter == 0 {
				t.Fatalf("%+v has no appointment", r)
			}
		}
		c, all := l.At(last).inspect(t, K())
		h := all[0]
		assert.Equal(t, len(h.Entries), engine.MaxEntries, "entries")
		assert.Equal(t, h.Older, 500, "older entries")
		assert.Equal(t, h.Entries[0].At, began.UnixMicro()+500_000, "the oldest that is shown")
		assert.Equal(t, h.Entries[999].At, began.UnixMicro()+1_499_000, "the newest")
		assert.Equal(t, len(h.Ahead), engine.MaxEntries, "appointments")
		assert.Equal(t, h.Later, 200, "later appointments")
		assert.Equal(t, h.Ahead[0].At, began.Add(window).UnixMicro(), "the next appointment")
		assert.Equal(t, c.States[0].Used, 2_700, "used")
	}
}

// TestInspectNamesReservations: a hold has the reservation that settles it, if that is of the same
// key. Holds of one instant are apart.
func TestInspectNamesReservations(t *testing.T) {
	l := newLimiter(policy{Name: "p", Limits: []limit{
		{Name: "user", Kind: engine.KindConcurrency, Max: 9, Window: time.Minute, By: []string{"tenant", "user"}},
		{Name: "tenant", Kind: engine.KindConcurrency, Max: 20, Window: time.Hour, By: []string{"tenant"}},
		{Name: "rate", Max: 90, Window: time.Hour, By: []string{"user"}},
	}})
	at := time.UnixMicro(1_700_000_000_000_000)
	l.at = at
	ann, bob := K("acme", "ann"), K("acme", "bob")
	hour := time.Hour.Microseconds()
	for _, c := range []engine.Call{{N: 2, ID: "a", TTL: hour}, {N: 1}, {N: 3, ID: "bb", TTL: hour}, {N: 1, ID: "once"}, {N: 1, ID: "done", TTL: hour},
		{Op: engine.Settle, N: 1, ID: "done"}} {
		mustDo(t, l, ann, c)
	}
	mustDo(t, l, bob, engine.Call{N: 1, ID: "a", TTL: hour})
	us := at.UnixMicro()
	_, h := l.inspect(t, ann)
	held := []engine.Entry{{At: us, Units: 2, ID: "a"}, {At: us, Units: 3, ID: "bb"}, {At: us, Units: 2}}
	assert.Equal(t, fmt.Sprint(h[0].Entries), fmt.Sprint(held), "holds of the user")
	held[2].Units = 3
	assert.Equal(t, fmt.Sprint(h[1].Entries), fmt.Sprint(held), "holds of the tenant")
	assert.Equal(t, fmt.Sprint(h[2].Entries), fmt.Sprint([]engine.Entry{{At: us, Units: 8}}), "entries")
	if err := l.Reset(ann); err != nil { // the reservations stay open, and hold nothing
		t.Fatal(err)
	}
	_, h = l.inspect(t, ann)
	assert.Equal(t, len(h[0].Entries), 0, "holds after a reset")
}

// TestInspectChangesNothing: the journal gets nothing, and the memory holds the same.
func TestInspectChangesNothing(t *testing.T) {
	for seed := range uint64(race.Fewer(60)) {
		r := rand.New(rand.NewPCG(seed, 54))
		journal := &recorder{}
		m := newKept(Options{Journal: journal})
		l := m.on(kindsOf(r))
		starts := map[int]int64{}
		for range 200 {
			actOnState(r, l)
			actAhead(r, l, starts)
		}
		l.memory.Rules(l.rules)
		changes, before := journal.len(), content(m)
		for i := range 12 {
			l.inspect(t, keyOf(i, len(l.rules.Dimensions)))
			l.At(time.Now().Add(-time.Hour)).inspect(t, keyOf(i, len(l.rules.Dimensions)))
			l.At(time.Now().Add(time.Hour)).inspect(t, keyOf(i, len(l.rules.Dimensions)))
		}
		assert.Equal(t, journal.len(), changes, "seed %d: changes", seed)
		checkWhole(t, m)
		if after := content(m); len(after) > len(before) {
			t.Errorf("seed %d: the memory holds %d things, and %d before", seed, len(after), len(before))
		}
	}
}

// TestInspectBesideDecisions: while others decide, the units of an inspection are those of its state.
func TestInspectBesideDecisions(t *testing.T) {
	l := newLimiter(policy{Name: "p", Limits: []limit{
		{Name: "held", Kind: engine.KindConcurrency, Max: 40, Window: 20 * time.Millisecond, By: []string{"user"}},
		{Name: "rate", Max: 300, Window: 5 * time.Millisecond, By: []string{"user"}},
		{Name: "all", Max: 1_000, Window: 10 * time.Millisecond},
	}})
	var done sync.WaitGroup
	for g := range 4 {
		done.Go(func() {
			for i := range race.Fewer(400) {
				k, id := K(fmt.Sprint(i%2)), fmt.Sprint(g, " ", i)
				_, err := l.do(k, engine.Call{N: 1 + int64(i%3), ID: id, TTL: time.Second.Microseconds()})
				if err == nil && i%3 > 0 {
					l.do(k, engine.Call{Op: engine.Settle, N: int64(i % 2), ID: id})
				}
			}
		})
	}
	for i := range race.Fewer(400) {
		c, all := l.inspect(t, K(fmt.Sprint(i%2)))
		for j := range all {
			sum := int64(0)
			for _, e := range all[j].Entries {
				sum += e.Units
			}
			if sum != c.States[j].Used || !slices.IsSortedFunc(all[j].Entries, func(a, b engine.Entry) int { return int(a.At - b.At) }) {
				t.Fatalf("limit %s: %d units in %+v, and %d are used", c.States[j].Name, sum, all[j], c.States[j].Used)
			}
		}
	}
	done.Wait()
}
