package memory

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/memstats"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/internal/window"
)

// TestRejectedIsCounted: Rejected counts each attempt or record that meets a cap once, with
// and without an id, and no other call.
func TestRejectedIsCounted(t *testing.T) {
	m := New(Options{MaxKeys: 2, MaxBytes: 1 << 20})
	assert.Equal(t, fmt.Sprint(m.Caps()), "2 1048576", "caps of keys and bytes")
	l := m.on(perUser(1, time.Hour))
	l.Allow(K("a"))
	l.Allow(K("b"))
	l.Allow(K("b")) // a denial is not counted
	l.Peek(K("c"), 1)
	assert.Equal(t, m.Rejected(), 0, "rejected before the cap was met")
	for i, call := range []func() (engine.Result, error){
		func() (engine.Result, error) { return l.Allow(K("c")) },
		func() (engine.Result, error) { return l.Record(K("c"), 1) },
		func() (engine.Result, error) { return l.do(K("a"), engine.Call{Op: engine.Record, N: 1, ID: "id"}) },
	} {
		if _, err := call(); !errors.Is(err, engine.ErrFull) || m.Rejected() != int64(i+1) {
			t.Errorf("call %d: %v, %d rejected; want engine.ErrFull, %d", i+1, err, m.Rejected(), i+1)
		}
	}
}

// TestFullWithoutKeys: a cap below the number of limits is full with no key, so the error does
// not only advise to wait.
func TestFullWithoutKeys(t *testing.T) {
	l := New(Options{MaxKeys: 1}).on(limits(2))
	_, err := l.Allow(K("a"))
	assert.Error(t, err, engine.ErrFull, "MaxKeys, 1, leave no room for the keys of the call, one for each limit")
}

// TestWaitingForRoomGetsRoom: a caller that meets a cap while another caller makes room is
// not rejected, although it finds no idle key itself afterwards.
func TestWaitingForRoomGetsRoom(t *testing.T) {
	for range 50 {
		m := New(Options{MaxKeys: 64})
		l := m.on(perUser(1, time.Millisecond))
		for i := range 64 {
			l.Allow(K(fmt.Sprint(i)))
		}
		time.Sleep(2 * time.Millisecond)
		var all sync.WaitGroup
		gate := make(chan struct{})
		for g := range 16 {
			all.Go(func() {
				<-gate
				if _, err := l.Allow(K(fmt.Sprint("new", g))); err != nil {
					t.Error("64 of 64 keys were idle:", err)
				}
			})
		}
		close(gate)
		all.Wait()
	}
}

// TestRejectedAtTheCapTakesNoPlace: an attempt that does not fit leaves the last
// place to one that does, at every moment.
func TestRejectedAtTheCapTakesNoPlace(t *testing.T) {
	m := New(Options{MaxKeys: 100})
	l := m.on(perUser(1, time.Hour))
	wide := m.on(limits(16))
	for i := range 99 {
		l.Allow(K(fmt.Sprint(i)))
	}
	var over atomic.Bool
	var other sync.WaitGroup
	other.Go(func() {
		for i := 0; !over.Load(); i++ {
			if _, err := wide.Allow(K(fmt.Sprint("wide", i))); !errors.Is(err, engine.ErrFull) {
				t.Error("16 histories with one place left:", err)
				return
			}
		}
	})
	for range 20_000 {
		if _, err := l.Allow(K("new")); err != nil {
			t.Error("99 of 100 keys are held:", err)
			break
		}
		l.Reset(K("new"))
	}
	over.Store(true)
	other.Wait()
}

// TestSecondTryForgetsTheFirst: an attempt that made room and tries again decides by the
// state it finds then, not by the state of the first try (R2, R13).
func TestSecondTryForgetsTheFirst(t *testing.T) {
	m := New(Options{MaxKeys: 2})
	both := policy{Name: "p", Limits: []limit{
		{Name: "a", Max: 5, Window: time.Second, By: []string{"a"}},
		{Name: "b", Max: 1, Window: time.Second, By: []string{"b"}}}}
	l := m.on(both)
	onlyA := m.on(policy{Name: "p", Limits: both.Limits[:1]})
	onlyB := m.on(policy{Name: "p", Limits: both.Limits[1:]})
	const at = 1_700_000_000_000_000
	onlyA.At(time.UnixMicro(at + 5_000_000)).Allow(K("x")) // ahead, to be corrected
	onlyA.At(time.UnixMicro(at)).Allow(K("z"))             // fills the cap

	var records [2]record
	var d engine.Result
	key, b := K("x", "y"), m.Rules(l.rules)
	ask := request{N: 1, at: moment{at, fromCaller}}
	c := claim{rules: b, req: &ask, records: records[:], at: ask.at}
	defer putBuffer(m.name(&c, b.limits, &key))
	try := func() error {
		m.hold(&c)
		_, err := m.decideHeld(&c, &d)
		return err
	}
	if err := try(); err != m.fullOfKeys {
		t.Fatalf("got %v, want the cap", err)
	}
	onlyA.Reset(K("x"))
	onlyA.Reset(K("z"))
	onlyB.At(time.UnixMicro(at)).Allow(K("y"))
	if err := try(); err != nil || d.Allowed || d.Limit != "b" {
		t.Errorf("got %+v, %v; want a denial by b", d, err)
	}
}

// TestManyPolicies: naming the limits of a policy does not copy those of all others.
func TestManyPolicies(t *testing.T) {
	m := New(Options{})
	bind := func(i int) {
		p := perUser(1, time.Minute)
		p.Name = fmt.Sprint("p", i)
		m.on(p)
	}
	for i := range 2000 {
		bind(i)
	}
	before := memstats.Allocated()
	for i := range 500 {
		bind(2000 + i)
	}
	if got := (memstats.Allocated() - before) / 500; got > 8000 {
		t.Errorf("a policy beside thousands takes %d bytes, want one or two thousand", got)
	}
}

// TestManyRates: each rate of a bucket has its own number.
func TestManyRates(t *testing.T) {
	m := New(Options{})
	for round := range 2 {
		for i := range int64(20_000) {
			want := window.NewRefill(1, 1000+i)
			if n := m.rates.number(want); n != uint32(i+1) || *m.rates.numbered(n) != want {
				t.Fatalf("round %d, rate %d: number %d of %v", round, i, n, *m.rates.numbered(n))
			}
		}
	}
}

// TestDenialIsAnsweredAtTheCap: at a cap on bytes a known key's denial is answered, although there
// is no room to store its correction of the clock (R2, R13).
func TestDenialIsAnsweredAtTheCap(t *testing.T) {
	m := New(Options{MaxBytes: 1 << 18})
	l := m.on(perUser(10, 2*time.Hour))
	t0 := time.UnixMicro(1_700_000_000_000_000)
	allowEach(l, K("k"), t0, 5)
	allowEach(l, K("k"), t0.Add(time.Hour), 5)
	fill(l, t0.Add(time.Hour), 10)
	want := mustPeek(t, l.At(t0.Add(time.Minute)), K("k"), 1)
	if d, err := l.At(t0.Add(time.Minute)).Allow(K("k")); err != nil || d.Allowed || d.RetryAfter != want.RetryAfter {
		t.Errorf("a denial of a known key: %+v, %v; want that of a peek, %+v", d, err, want)
	}
}

// fill grants so many units to new keys, from an instant on, until 500 have met a cap.
func fill(l *limiter, at time.Time, units int) {
	for i, failed := 0, 0; failed < 500; i++ {
		if allowEach(l, K(fmt.Sprint(i)), at, units) != nil {
			failed++
		}
	}
}

// allowEach requests so many units of a key, one a second from an instant on, until one fails.
func allowEach(l *limiter, k engine.Key, at time.Time, units int) error {
	for i := range units {
		if _, err := l.At(at.Add(time.Duration(i) * time.Second)).Allow(k); err != nil {
			return err
		}
	}
	return nil
}

// TestRefundWithoutRoomTakesNothing: a refund that finds the history of one limit in the future
// corrects it. Without room for that it takes no unit from the history of another limit (R2,
// R7, R10). In one of a hundred engines the shard of the key has room left.
func TestRefundWithoutRoomTakesNothing(t *testing.T) {
	full := 0
	for range 5 {
		m := New(Options{MaxBytes: 1 << 18})
		both := limits(2)
		for i := range both.Limits {
			both.Limits[i].Window = 2 * time.Hour
		}
		l, second := m.on(both), m.on(policy{Name: "p", Limits: both.Limits[1:]})
		t0 := time.UnixMicro(1_700_000_000_000_000)
		allowEach(l, K("k"), t0, 10)
		allowEach(second, K("k"), t0.Add(time.Hour), 10)
		fill(l, t0.Add(time.Hour), 30)
		before := content(m)
		n, err := l.At(t0.Add(time.Minute)).Refund(K("k"), t0, 1)
		if err == nil {
			continue
		}
		if full++; n != 0 || !errors.Is(err, engine.ErrFull) {
			t.Errorf("a refund without room for a correction: %d units, %v; want engine.ErrFull", n, err)
		}
		compareContent(t, "a refund without room", content(m), before)
	}
	if full == 0 {
		t.Error("there was always room")
	}
}

// TestRoomIsMadeWhereTheKeyGoes: many keys of a limit find room beside a limit with one key.
func TestRoomIsMadeWhereTheKeyGoes(t *testing.T) {
	p := perUser(1, time.Hour)
	p.Limits = append([]limit{{Name: "all", Max: 1 << 40, Window: time.Hour}}, p.Limits...)
	l := newLimiter(p)
	keys := race.Fewer(200_000)
	for i := range keys {
		granted(t, mustAllow(t, l, K(fmt.Sprint(i))))
	}
	assert.Equal(t, l.memory.Len(), keys+1, "histories")
}

// TestCorrectionWithoutRoomLeaksNothing: if there is room for the corrected copies of some histories
// but not of all, nothing is stored, and no memory is lost (R2, R13).
func TestCorrectionWithoutRoomLeaksNothing(t *testing.T) {
	const most = 1 << 20
	failed, stored := 0, 0
	p := limits(4)
	for i := range p.Limits {
		p.Limits[i].Max, p.Limits[i].Window = 5000, time.Minute
	}
	step := int64(2000)
	if race.Enabled {
		step = 8000 // the detector finds nothing in one goroutine
	}
	for spare := int64(0); spare < 100_000; spare += step {
		m := New(Options{MaxBytes: most})
		l, at := m.on(p), time.UnixMicro(1_000_000_000_000_000)
		for i := range 2000 { // an entry each
			mustAllow(t, l.At(at.Add(time.Duration(i)*time.Millisecond)), K("42"))
		}
		mustAllow(t, l.At(at.Add(10*time.Second)), K("42")) // of the future at the next call
		m.table.Take(int(most - m.Bytes() - spare))
		before := m.Bytes()
		if _, err := l.At(at.Add(5 * time.Second)).Allow(K("42")); err == nil {
			stored++
		} else if failed++; !errors.Is(err, engine.ErrFull) || m.Bytes() != before {
			t.Errorf("%d bytes were free: %v, and %d bytes are lost", spare, err, m.Bytes()-before)
		}
	}
	if failed == 0 || stored == 0 {
		t.Errorf("%d corrections were stored and %d were not, want some of both", stored, failed)
	}
}
