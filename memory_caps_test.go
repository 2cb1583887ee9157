package weir

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestFullNamesItsCap: the error at a cap names the one that was met.
func TestFullNamesItsCap(t *testing.T) {
	for _, test := range []struct {
		engine *Memory
		want   string
	}{
		{NewMemory(MaxKeys(3)), "MaxKeys, 3"}, // two limits: room for one key and a half
		{NewMemory(MaxBytes(2048)), "MaxBytes, 2048"},
		{NewMemory(MaxKeys(1_000_000), MaxBytes(2048)), "MaxBytes, 2048"},
	} {
		l := mustNew(t, limits(2), WithEngine(test.engine))
		err := error(nil)
		for i := 0; err == nil && i < 1000; i++ {
			_, err = l.Allow(ctx, K(fmt.Sprint(i)))
		}
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want ErrFull that names %s", err, test.want)
		}
	}
}

// TestRejectedIsCounted: Rejected counts each attempt or record that meets a cap once, with
// and without an id, and no other call.
func TestRejectedIsCounted(t *testing.T) {
	m := NewMemory(MaxKeys(2), MaxBytes(1<<20))
	if keys, bytes := m.Caps(); keys != 2 || bytes != 1<<20 {
		t.Errorf("caps of %d keys and %d bytes", keys, bytes)
	}
	l := mustNew(t, perUser(1, time.Hour), WithEngine(m))
	l.Allow(ctx, K("a"))
	l.Allow(ctx, K("b"))
	l.Allow(ctx, K("b")) // a denial is not counted
	l.Peek(ctx, K("c"), 1)
	if got := m.Rejected(); got != 0 {
		t.Fatalf("%d rejected before the cap was met", got)
	}
	for i, call := range []func() (Decision, error){
		func() (Decision, error) { return l.Allow(ctx, K("c")) },
		func() (Decision, error) { return l.Record(ctx, K("c"), 1) },
		func() (Decision, error) { return l.Decide(ctx, K("a"), Request{Op: OpRecord, N: 1, ID: "id"}) },
	} {
		if _, err := call(); !errors.Is(err, ErrFull) || m.Rejected() != int64(i+1) {
			t.Errorf("call %d: %v, %d rejected; want ErrFull, %d", i+1, err, m.Rejected(), i+1)
		}
	}
}

// TestWaitingForRoomGetsRoom: a caller that meets a cap while another caller makes room is
// not rejected, although it finds no idle key itself afterwards.
func TestWaitingForRoomGetsRoom(t *testing.T) {
	for range 50 {
		m := NewMemory(MaxKeys(64))
		l := mustNew(t, perUser(1, time.Millisecond), WithEngine(m))
		for i := range 64 {
			l.Allow(ctx, K(fmt.Sprint(i)))
		}
		time.Sleep(2 * time.Millisecond)
		var all sync.WaitGroup
		gate := make(chan struct{})
		for g := range 16 {
			all.Go(func() {
				<-gate
				if _, err := l.Allow(ctx, K(fmt.Sprint("new", g))); err != nil {
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
	m := NewMemory(MaxKeys(100))
	l := mustNew(t, perUser(1, time.Hour), WithEngine(m))
	wide := mustNew(t, limits(16), WithEngine(m))
	for i := range 99 {
		l.Allow(ctx, K(fmt.Sprint(i)))
	}
	var over atomic.Bool
	var other sync.WaitGroup
	other.Go(func() {
		for i := 0; !over.Load(); i++ {
			if _, err := wide.Allow(ctx, K(fmt.Sprint("wide", i))); !errors.Is(err, ErrFull) {
				t.Error("16 histories with one place left:", err)
				return
			}
		}
	})
	for range 20_000 {
		if _, err := l.Allow(ctx, K("new")); err != nil {
			t.Error("99 of 100 keys are held:", err)
			break
		}
		l.Reset(ctx, K("new"))
	}
	over.Store(true)
	other.Wait()
}

// TestSecondTryForgetsTheFirst: an attempt that made room and tries again decides by the
// state it finds then, not by the state of the first try (R2, R13).
func TestSecondTryForgetsTheFirst(t *testing.T) {
	m := NewMemory(MaxKeys(2))
	both := Policy{Name: "p", Limits: []Limit{
		{Name: "a", Max: 5, Window: time.Second, By: []string{"a"}},
		{Name: "b", Max: 1, Window: time.Second, By: []string{"b"}}}}
	l := mustNew(t, both, WithEngine(m))
	onlyA := mustNew(t, Policy{Name: "p", Limits: both.Limits[:1]}, WithEngine(m))
	onlyB := mustNew(t, Policy{Name: "p", Limits: both.Limits[1:]}, WithEngine(m))
	const at = 1_700_000_000_000_000
	onlyA.At(time.UnixMicro(at+5_000_000)).Allow(ctx, K("x")) // ahead, to be corrected
	onlyA.At(time.UnixMicro(at)).Allow(ctx, K("z"))           // fills the cap

	var slots [2]slot
	var d Decision
	key, ask, b := K("x", "y"), Request{N: 1}, m.compiled(l.plan)
	if err := m.decideSlots(b, &key, &ask, moment{at, fromCaller}, slots[:], &d); err != m.fullOfKeys {
		t.Fatalf("got %v, want the cap", err)
	}
	onlyA.Reset(ctx, K("x"))
	onlyA.Reset(ctx, K("z"))
	onlyB.At(time.UnixMicro(at)).Allow(ctx, K("y"))
	if err := m.decideSlots(b, &key, &ask, moment{at, fromCaller}, slots[:], &d); err != nil || d.Allowed || d.Limit != "b" {
		t.Errorf("got %+v, %v; want a denial by b", d, err)
	}
}

// TestManyPolicies: naming the limits of a plan does not copy those of all others.
func TestManyPolicies(t *testing.T) {
	m := NewMemory()
	bind := func(i int) {
		p := perUser(1, time.Minute)
		p.Name = fmt.Sprint("p", i)
		mustNew(t, p, WithEngine(m))
	}
	for i := range 2000 {
		bind(i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 500 {
		bind(2000 + i)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / 500; got > 8000 {
		t.Errorf("a policy beside thousands takes %d bytes, want one or two thousand", got)
	}
}
