package weir

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestOperationsAreForgotten: operations are removed when they are over, a few with each
// new one and all with Sweep (R13).
func TestOperationsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		l := mustNew(t, perUser(1_000_000, time.Second), WithEngine(m))
		m.Sweep()
		before := m.Bytes()
		for i := range 1000 {
			l.AllowOnce(ctx, K("42"), 1, fmt.Sprint("a", i))
		}
		if got := m.Len(); got != 1001 {
			t.Errorf("%d held, want one key and 1000 operations", got)
		}
		time.Sleep(time.Minute)
		for i := range 700 {
			l.AllowOnce(ctx, K("42"), 1, fmt.Sprint("b", i))
		}
		if got := m.operations.len(); got > 1000 {
			t.Errorf("%d operations are held after 700 new ones, and 1000 that are over", got)
		}
		time.Sleep(time.Minute)
		m.Sweep()
		if m.Len() != 0 || m.Bytes() != before {
			t.Errorf("%d held in %d bytes, want nothing in %d", m.Len(), m.Bytes(), before)
		}
	})
}

// TestOperationsKeepNoRoomForNothing: a denied, failed or replayed operation takes no room
// (R4).
func TestOperationsKeepNoRoomForNothing(t *testing.T) {
	m := NewMemory(MaxKeys(10), MaxBytes(1<<20))
	l := mustNew(t, perUser(2, time.Hour), WithEngine(m))
	l.AllowOnce(ctx, K("42"), 2, "granted")
	keys, bytes := keysCounted(m), m.Bytes()
	for i := range 100 {
		l.AllowOnce(ctx, K("42"), 2, "granted")
		l.AllowOnce(ctx, K("42"), 1, "granted")
		l.AllowOnce(ctx, K("42"), 1, fmt.Sprint("denied", i))
		l.Decide(ctx, K("42"), Request{Op: OpRecord, N: MaxUnits, ID: fmt.Sprint("too much", i)})
	}
	if keysCounted(m) != keys || m.Bytes() != bytes || m.Len() != 2 {
		t.Errorf("%d keys in %d bytes and %d held, want %d in %d and 2", keysCounted(m), m.Bytes(), m.Len(), keys, bytes)
	}
}

// TestOperationsCountAgainstCaps: at a cap an operation is rejected and not charged.
// Operations that are over make room (R13).
func TestOperationsCountAgainstCaps(t *testing.T) {
	for name, o := range map[string]MemoryOption{"keys": MaxKeys(50), "bytes": MaxBytes(40_000)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory(o)
				l := mustNew(t, perUser(1_000_000, time.Second), WithEngine(m))
				granted := int64(0)
				var err error
				for i := 0; err == nil && i < 1000; i++ {
					var d Decision
					d, err = l.AllowOnce(ctx, K("42"), 1, fmt.Sprint("a", i))
					granted += d.Granted
				}
				if !errors.Is(err, ErrFull) {
					t.Fatalf("%d operations: got %v, want ErrFull", granted, err)
				}
				if n, _ := l.Count(ctx, K("42"), "user", time.Second); n != granted || granted < 40 {
					t.Errorf("%d units are recorded, %d were granted", n, granted)
				}
				if d, err := l.AllowOnce(ctx, K("42"), 1, "a0"); err != nil || !d.Replayed {
					t.Errorf("at the cap, made again: %+v, %v", d, err)
				}
				time.Sleep(time.Minute)
				if d, err := l.AllowOnce(ctx, K("42"), 1, "new"); err != nil || !d.Allowed {
					t.Errorf("when the others are over: %+v, %v", d, err)
				}
			})
		})
	}
}

// TestOperationsThatRecordNothingAtACap: a denied attempt and a refund that takes nothing
// need no room. So they are answered, and remove no history to make some (R4, R13).
func TestOperationsThatRecordNothingAtACap(t *testing.T) {
	m := NewMemory(MaxKeys(2))
	l := mustNew(t, perUser(1, time.Minute), WithEngine(m))
	start := time.UnixMicro(1_000_000_000_000_000)
	for _, key := range []string{"42", "43"} {
		if d, err := l.At(start).Allow(ctx, K(key)); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	later := l.At(start.Add(62 * time.Minute))
	if d, err := later.Decide(ctx, K("42"), Request{N: 2, ID: "a"}); err != nil || d.Allowed || d.RetryAfter != Never {
		t.Errorf("an attempt of 2 of 1: %+v, %v; want a denial", d, err)
	}
	if d, err := later.Decide(ctx, K("42"), Request{Op: OpRefund, From: start, N: 1, ID: "r"}); err != nil || d.Granted != 0 {
		t.Errorf("a refund after the window: %d, %v; want 0", d.Granted, err)
	}
	if d, err := l.At(start).Decide(ctx, K("42"), Request{Op: OpRefund, From: start, N: 1, ID: "s"}); !errors.Is(err, ErrFull) || d != (Decision{}) {
		t.Errorf("a refund without room to remember it: %v, %v; want ErrFull", d, err)
	}
	for _, key := range []string{"42", "43"} {
		if d, err := l.At(start.Add(time.Second)).Allow(ctx, K(key)); err != nil || d.Allowed {
			t.Errorf("key %s: a second unit of 1 per minute: %+v, %v; want a denial", key, d, err)
		}
	}
	if d, err := later.Decide(ctx, K("42"), Request{N: 1, ID: "b"}); err != nil || !d.Allowed {
		t.Errorf("an attempt that fits, when the others are over: %+v, %v; want a grant", d, err)
	}
}

// TestOperationsOfTwoTimes: operations at instants of the caller are not removed by the
// engine's clock, nor the reverse (R13).
func TestOperationsOfTwoTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		l := mustNew(t, perUser(10, time.Second), WithEngine(m))
		past, far := time.UnixMicro(1_000_000), time.Now().Add(1000*time.Hour)
		at := func(at time.Time, id string) Decision {
			d, err := l.At(at).Decide(ctx, K(id), Request{N: 1, ID: id})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		at(past, "virtual")
		l.AllowOnce(ctx, K("real"), 1, "real")
		at(far, "far")
		for i := range 100 {
			at(far, fmt.Sprint("more", i))
			l.AllowOnce(ctx, K("42"), 1, fmt.Sprint(i))
		}
		m.Sweep()
		if d, _ := l.AllowOnce(ctx, K("real"), 1, "real"); !d.Replayed {
			t.Error("an operation on the clock was removed by a caller's instant")
		}
		if d := at(far, "far"); !d.Replayed {
			t.Error("an operation at a caller's instant was removed by the clock")
		}
	})
}

// TestOnceRejectsBadInput: ids are checked before the engine decides (R14).
func TestOnceRejectsBadInput(t *testing.T) {
	l := mustNew(t, perUser(10, time.Second))
	for name, call := range map[string]func() (Decision, error){
		"no id":    func() (Decision, error) { return l.AllowOnce(ctx, K("42"), 1, "") },
		"too long": func() (Decision, error) { return l.AllowOnce(ctx, K("42"), 1, fmt.Sprintf("%*d", MaxIDBytes+1, 1)) },
		"too long, at all": func() (Decision, error) {
			return l.Decide(ctx, K("42"), Request{N: 1, ID: fmt.Sprintf("%*d", MaxIDBytes+1, 1)})
		},
	} {
		if d, err := call(); !errors.Is(err, ErrID) || d != (Decision{}) {
			t.Errorf("%s: got %+v, %v, want ErrID", name, d, err)
		}
	}
	if d, err := l.Decide(ctx, K("42"), Request{Op: OpRecord, N: 2}); err != nil || d.Remaining != 8 {
		t.Errorf("a record of 2 by Decide: %+v, %v", d, err)
	}
	var zero Limiter
	if _, err := zero.AllowOnce(ctx, K(), 1, "x"); err == nil {
		t.Error("the zero Limiter decided")
	}
}
