package memory

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// wait requests n units of a key and waits for up to an hour.
func (l *limiter) wait(k engine.Key, n int64) (engine.Result, error) {
	return l.do(k, engine.Call{N: n, MaxWait: time.Hour.Microseconds()})
}

var noon = time.UnixMicro(1_700_000_000_000_000)

// TestManyWaiters: 10,000 waiting callers of one key get the instants at which units leave, one after
// the other, in little memory, and all of it is given back (R18).
func TestManyWaiters(t *testing.T) {
	const waiters, most = 10_000, 10
	for kind := engine.KindRolling; kind < engine.KindConcurrency; kind++ {
		l := newLimiter(policy{Name: "p", Limits: []limit{{Name: "l", Kind: kind, Max: most, Window: time.Second, By: []string{"user"}}}})
		now, newest := noon, noon
		for i := range waiters {
			now = now.Add(time.Millisecond)
			d := granted(t, mustWait(t, l.At(now), K("a"), 1))
			start := d.At.Add(d.StartAfter)
			if start.Before(newest) || i < most && start != now {
				t.Fatalf("%v, caller %d: it starts at %v, and the one before at %v", kind, i, start.Sub(noon), newest.Sub(noon))
			}
			newest = start
		}
		// Ten units a second, and fixed windows give all of theirs at the beginning.
		if took := newest.Sub(noon); took < waiters/most*time.Second-2*time.Second || took > waiters/most*time.Second {
			t.Errorf("%v: the last one starts after %v", kind, took)
		}
		if bytes := l.memory.Bytes(); bytes > 32*waiters {
			t.Errorf("%v: %d appointments take %d bytes", kind, waiters, bytes)
		}
		checkWhole(t, l.memory)
		granted(t, mustAllow(t, l.At(newest.Add(time.Hour)), K("a")))
		checkWhole(t, l.memory)
		checkEmptied(t, l.memory)
	}
}

// TestAppointmentWithoutRoom: at a cap on bytes an appointment of a known or a new key is ErrFull,
// and no limit has changed; a denial is answered, and a cancel needs no room (R13, R18).
func TestAppointmentWithoutRoom(t *testing.T) {
	m := New(Options{MaxBytes: 1 << 18})
	p := limits(2)
	p.Limits[0].Max, p.Limits[1].By = 2, nil
	l := m.on(p)
	granted(t, mustAllowN(t, l.At(noon), K("known"), 2))
	first := granted(t, mustWait(t, l.At(noon), K("known"), 2))
	for size := 1 << 12; size > 0; size /= 2 { // until not a byte is left
		for m.table.Take(size) {
		}
	}
	before := content(m)
	rejected := 0
	for i := range 2000 {
		k := K("known")
		if i%2 == 1 {
			k = K(fmt.Sprint("new", i))
		}
		_, err := l.At(noon).wait(k, 2)
		if err == nil {
			before = content(m) // a list or a shard had room
			continue
		}
		rejected++
		if !errors.Is(err, engine.ErrFull) {
			t.Fatalf("call %d: got %v, want ErrFull", i, err)
		}
		compareContent(t, "an appointment without room", content(m), before)
	}
	if rejected < 1900 {
		t.Errorf("%d of 2000 calls were rejected", rejected)
	}
	if d, err := l.At(noon).Allow(K("known")); err != nil || d.Allowed {
		t.Errorf("a denial at the cap: %+v, %v", d, err)
	}
	got, err := l.At(noon).Refund(K("known"), first.At.Add(first.StartAfter), 2)
	assert.Equal(t, fmt.Sprint(got, err), "2 <nil>", "a cancel at the cap")
	checkWhole(t, m)
}

// TestAppointmentsAreKept: a history is kept until its last appointment no longer counts, also after
// a cancel of a later one, and for an unknown key all is forgotten then (R13, R18).
func TestAppointmentsAreKept(t *testing.T) {
	for kind := engine.KindRolling; kind < engine.KindConcurrency; kind++ {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(policy{Name: "p", Limits: []limit{{Name: "l", Kind: kind, Max: 1, Window: time.Minute, By: []string{"user"}}}})
			granted(t, mustAllow(t, l, K("a")))
			granted(t, mustWait(t, l, K("a"), 1))
			last := granted(t, mustWait(t, l, K("a"), 1))
			cancelled := granted(t, mustWait(t, l, K("a"), 1))
			if _, err := l.Refund(K("a"), cancelled.At.Add(cancelled.StartAfter), 1); err != nil {
				t.Fatal(err)
			}
			until := last.At.Add(last.StartAfter).Add(time.Minute)
			for _, c := range []struct {
				after time.Duration
				want  int
			}{{-2 * time.Second, 1}, {2 * time.Second, 0}} {
				time.Sleep(time.Until(until.Add(c.after)))
				l.memory.Sweep()
				assert.Equal(t, l.memory.Len(), c.want, "%v: histories %v after the last appointment has left", kind, c.after)
			}
			assert.Equal(t, l.memory.Bytes(), 0, "bytes at the end")
		})
	}
}

// TestDenialsBesidePassedAppointments: denials and peeks count appointments that have begun, and
// leave the work to the next grant (R4, R18).
func TestDenialsBesidePassedAppointments(t *testing.T) {
	l := newLimiter(perUser(2, time.Minute))
	granted(t, mustAllowN(t, l.At(noon), K("a"), 2))
	granted(t, mustWait(t, l.At(noon.Add(time.Second)), K("a"), 2))
	before := content(l.memory)
	later := l.At(noon.Add(90 * time.Second))
	for range 3 {
		d := mustAllow(t, later, K("a"))
		if d.Allowed || d.RetryAfter != 30*time.Second || d.Remaining != 0 {
			t.Errorf("an attempt half a minute after the start: %+v", d)
		}
	}
	n, err := later.Count(K("a"), 0, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, n, 0, "units in the half minute after the start")
	n, err = later.Count(K("a"), 0, 30*time.Second+time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, n, 2, "units since the start")
	compareContent(t, "denials", content(l.memory), before)
}

// TestReplayHasTheRestOfAWait: a repeated attempt gets the rest of its wait, and at most the whole
// (R15, R18).
func TestReplayHasTheRestOfAWait(t *testing.T) {
	l := newLimiter(perUser(1, time.Minute))
	granted(t, mustAllow(t, l.At(noon), K("a")))
	for _, c := range []struct{ after, want time.Duration }{
		{10 * time.Second, 50 * time.Second}, {20 * time.Second, 40 * time.Second},
		{5 * time.Second, 50 * time.Second}, {60 * time.Second, 0}, {90 * time.Second, 0},
	} {
		d := granted(t, mustDo(t, l.At(noon.Add(c.after)), K("a"), engine.Call{N: 1, ID: "id", MaxWait: time.Hour.Microseconds()}))
		assert.Equal(t, d.StartAfter, c.want, "StartAfter after %v", c.after)
	}
}

// TestAppointmentsShareAWindow: of appointments in one window from the first unit, all leave with the
// first one, also before an operation has recorded them (R3, R18).
func TestAppointmentsShareAWindow(t *testing.T) {
	l := newLimiter(policy{Name: "p", Limits: []limit{
		{Name: "own", Max: 1, Window: time.Minute, By: []string{"user"}},
		{Name: "all", Kind: engine.KindFixedFromFirst, Max: 10, Window: time.Minute},
	}})
	for i, user := range []string{"a", "b"} {
		at := l.At(noon.Add(time.Duration(i) * 10 * time.Second))
		granted(t, mustAllow(t, at, K(user)))
		d := granted(t, mustWait(t, at, K(user), 1))
		assert.Equal(t, d.StartAfter, time.Minute, "the wait of %s", user)
	}
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{119 * time.Second, 2}, {120 * time.Second, 0}} {
		states := make([]engine.State, 2)
		mustDo(t, l.At(noon.Add(c.after)), K("c"), engine.Call{Op: engine.Peek, N: 1, States: states})
		assert.Equal(t, states[1].Used, c.want, "units that count after %v", c.after)
	}
}

// TestAppointmentBesideALaterCell: an appointment that begins before the end of the newest cell
// leaves with that cell, after a change to exact instants (R9, R12, R18).
func TestAppointmentBesideALaterCell(t *testing.T) {
	p := perUser(5, time.Minute)
	p.Limits[0].MinInterval, p.Limits[0].Cells = 3*time.Second, 3
	m := New(Options{})
	granted(t, mustAllow(t, m.on(p).At(noon), K("a")))
	p.Limits[0].Cells = 0
	exact := m.on(p)
	granted(t, mustWait(t, exact.At(noon.Add(time.Second)), K("a"), 1))
	cell := (time.Minute.Microseconds()-1)/3 + 1
	end := time.UnixMicro(noon.UnixMicro()/cell*cell + cell)
	now := noon.Add(2 * time.Second)
	d := mustDo(t, exact.At(now), K("a"), engine.Call{Op: engine.Peek, N: 5})
	assert.Equal(t, d.RetryAfter, end.Add(time.Minute).Sub(now), "the wait for all units")
}
