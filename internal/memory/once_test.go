package memory

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestOperationsAreForgotten: operations are removed when they are over, a few with each
// new one and all with Sweep (R13).
func TestOperationsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		l := m.on(perUser(1_000_000, time.Second))
		m.Sweep()
		before := m.Bytes()
		for i := range 1000 {
			l.AllowOnce(K("42"), 1, fmt.Sprint("a", i))
		}
		assert.Equal(t, m.Len(), 1001, "one key and 1000 operations")
		time.Sleep(time.Minute)
		for i := range 700 {
			l.AllowOnce(K("42"), 1, fmt.Sprint("b", i))
		}
		if got := m.operations.len(); got > 1000 {
			t.Errorf("%d operations are held after 700 new ones, and 1000 that are over", got)
		}
		time.Sleep(time.Minute)
		m.Sweep()
		assert.Equal(t, fmt.Sprint(m.Len(), m.Bytes()), fmt.Sprint(0, before), "keys and bytes that are held")
	})
}

// TestOperationsKeepNoRoomForNothing: a denied, failed or replayed operation takes no room
// (R4).
func TestOperationsKeepNoRoomForNothing(t *testing.T) {
	m := New(Options{MaxKeys: 10, MaxBytes: 1 << 20})
	l := m.on(perUser(2, time.Hour))
	l.AllowOnce(K("42"), 2, "granted")
	bytes := m.Bytes()
	for i := range 100 {
		l.AllowOnce(K("42"), 2, "granted")
		l.AllowOnce(K("42"), 1, "granted")
		l.AllowOnce(K("42"), 1, fmt.Sprint("denied", i))
		l.do(K("42"), engine.Call{Op: engine.Record, N: engine.MaxUnits, ID: fmt.Sprint("too much", i)})
	}
	checkWhole(t, m)
	assert.Equal(t, fmt.Sprint(m.Len(), m.Bytes()), fmt.Sprint(2, bytes), "keys and bytes that are held")
}

// TestOperationsCountAgainstCaps: at a cap an operation is rejected and not charged.
// Operations that are over make room (R13).
func TestOperationsCountAgainstCaps(t *testing.T) {
	for name, o := range map[string]Options{"keys": {MaxKeys: 50}, "bytes": {MaxBytes: 40_000}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(o)
				l := m.on(perUser(1_000_000, time.Second))
				granted := int64(0)
				var err error
				for i := 0; err == nil && i < 1000; i++ {
					var d engine.Result
					d, err = l.AllowOnce(K("42"), 1, fmt.Sprint("a", i))
					granted += d.Granted
				}
				if !errors.Is(err, engine.ErrFull) {
					t.Fatalf("%d operations: got %v, want ErrFull", granted, err)
				}
				if n, _ := l.Count(K("42"), 0, time.Second); n != granted || granted < 40 {
					t.Errorf("%d units are recorded, %d were granted", n, granted)
				}
				assert.Equal(t, mustAllowOnce(t, l, K("42"), 1, "a0").Replayed, true, "made again at the cap: replayed")
				time.Sleep(time.Minute)
				assert.Equal(t, mustAllowOnce(t, l, K("42"), 1, "new").Allowed, true, "allowed when the others are over")
			})
		})
	}
}

// TestRefundsExceedACapByAnEighth: refunds that are remembered have room beyond a cap, and no
// more than that, however often units are granted and taken back. One without room takes none.
func TestRefundsExceedACapByAnEighth(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	for name, o := range map[string]Options{"keys": {MaxKeys: 80}, "bytes": {MaxBytes: 1 << 20}} {
		m := New(o)
		l := m.on(perUser(1, time.Minute)).At(start)
		mustAllow(t, l, K("known"))
		var full error
		for i := 0; full == nil; i++ {
			_, full = l.do(K(fmt.Sprint(i)), engine.Call{N: 1, ID: fmt.Sprint(i)})
		}
		refunds := int64(0)
		for full = nil; full == nil && refunds < 10_000; refunds++ {
			_, full = l.do(K("known"), engine.Call{Op: engine.Refund, From: start.UnixMicro(), N: 1, ID: fmt.Sprint("r", refunds)})
			if d, err := l.Allow(K("known")); err != nil || d.Allowed != (full == nil) {
				t.Fatalf("%s, after refund %d, %v: %+v, %v", name, refunds, full, d, err)
			}
		}
		most := o.MaxKeys/8 + 16 + 1 // one is left of the cap, where a new key needs two
		if name == "bytes" {
			most = o.MaxBytes / 8 / operationBytes
		}
		if !errors.Is(full, engine.ErrFull) || refunds-1 > most || refunds-1 < most*3/4 {
			t.Errorf("%s: %d refunds beyond the cap, then %v; want about %d, then ErrFull", name, refunds-1, full, most)
		}
		checkWhole(t, m)
	}
}

// TestOperationsThatRecordNothingAtACap: a denied attempt and a refund that takes nothing
// need no room. So they are answered, and remove no history to make some (R4, R13). A refund of
// units exceeds the cap.
func TestOperationsThatRecordNothingAtACap(t *testing.T) {
	m := New(Options{MaxKeys: 2})
	l := m.on(perUser(1, time.Minute))
	start := time.UnixMicro(1_000_000_000_000_000)
	for _, key := range []string{"42", "43"} {
		granted(t, mustAllow(t, l.At(start), K(key)))
	}
	later := l.At(start.Add(62 * time.Minute))
	if d, err := later.do(K("42"), engine.Call{N: 2, ID: "a"}); err != nil || d.Allowed || d.RetryAfter != engine.Never {
		t.Errorf("an attempt of 2 of 1: %+v, %v; want a denial", d, err)
	}
	d := mustDo(t, later, K("42"), engine.Call{Op: engine.Refund, From: start.UnixMicro(), N: 1, ID: "r"})
	assert.Equal(t, d.Granted, 0, "a refund after the window")
	for _, key := range []string{"42", "43"} {
		assert.Equal(t, mustAllow(t, l.At(start.Add(time.Second)), K(key)).Allowed, false, "key %s: a second unit of 1 per minute", key)
	}
	for _, replayed := range []bool{false, true} {
		if d, err := l.At(start).do(K("42"), engine.Call{Op: engine.Refund, From: start.UnixMicro(), N: 1, ID: "s"}); err != nil || d.Granted != 1 || d.Replayed != replayed {
			t.Errorf("a refund at the cap: %+v, %v; want 1 unit, replayed %t", d, err, replayed)
		}
	}
	granted(t, mustDo(t, later, K("42"), engine.Call{N: 1, ID: "b"})) // the others are over
}

// TestOperationsOfTwoTimes: operations at instants of the caller are not removed by the
// engine's clock, nor the reverse (R13).
func TestOperationsOfTwoTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		l := m.on(perUser(10, time.Second))
		past, far := time.UnixMicro(1_000_000), time.Now().Add(1000*time.Hour)
		at := func(at time.Time, id string) engine.Result {
			return mustDo(t, l.At(at), K(id), engine.Call{N: 1, ID: id})
		}
		at(past, "virtual")
		l.AllowOnce(K("real"), 1, "real")
		at(far, "far")
		for i := range 100 {
			at(far, fmt.Sprint("more", i))
			l.AllowOnce(K("42"), 1, fmt.Sprint(i))
		}
		m.Sweep()
		assert.Equal(t, mustAllowOnce(t, l, K("real"), 1, "real").Replayed, true, "an operation on the clock: replayed")
		assert.Equal(t, at(far, "far").Replayed, true, "an operation at a caller's instant: replayed")
	})
}

// TestApplyForgetsNoOperation: Apply of an operation removes no other one, even if the other is
// over at its instant, because a snapshot is in no order of time.
func TestApplyForgetsNoOperation(t *testing.T) {
	m := New(Options{})
	at := time.UnixMicro(1_700_000_000_000_000)
	for i := range 64 { // in each shard
		for j, when := range []time.Time{at, at.Add(100 * 24 * time.Hour)} {
			o := &Operation{Name: fmt.Sprint(j, " ", i), Asked: 1, Until: when.Add(time.Minute).UnixMicro(), Allowed: true, Granted: 1, At: when.UnixMicro()}
			must.Do(t, m.Apply(&Change{Kind: Remember, Virtual: true, At: when.UnixMicro(), Operation: o}))
		}
	}
	assert.Equal(t, m.Len(), 128, "operations that are remembered")
}

// TestReplay: Replay finds an operation until it is over, by the instant of the call or, without
// one, by the clock (R1, R15). It decides nothing.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		l := m.on(perUser(10, time.Second))
		replayed := func(c engine.Call) bool {
			c.Rules, c.Key = l.rules, K("42")
			found := m.Replay(&c)
			if found != c.Result.Replayed || found && c.Result.Granted != 3 {
				t.Errorf("found %t, with %+v; want 3 units, replayed, or nothing", found, c.Result)
			}
			return found
		}
		if replayed(engine.Call{N: 3, ID: "a"}) {
			t.Error("an operation is found before it is made")
		}
		d := granted(t, mustAllowOnce(t, l, K("42"), 3, "a"))
		for _, c := range []engine.Call{{N: 3}, {N: 3, ID: "b"}, {ID: "a"}, {Op: engine.Peek, N: 3, ID: "a"}} {
			if replayed(c) {
				t.Errorf("%+v is found as %+v", c, engine.Call{N: 3, ID: "a"})
			}
		}
		over := d.At.Add(l.rules.IdempotencyTTL).UnixMicro()
		for _, at := range []int64{0, over - 1, over} {
			assert.Equal(t, replayed(engine.Call{N: 3, ID: "a", At: at, Given: true}), at < over, "found at %d, over at %d", at, over)
		}
		for _, left := range []time.Duration{time.Microsecond, 0} {
			time.Sleep(time.Until(time.UnixMicro(over).Add(-left)))
			assert.Equal(t, replayed(engine.Call{N: 3, ID: "a"}), left > 0, "found %v before it is over by the clock", left)
		}
		assert.Equal(t, m.Len(), 2, "one key and one operation")
	})
}
