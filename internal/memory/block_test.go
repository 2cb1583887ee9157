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

// blocking is a policy of n units a second for each user, whose denials block for an hour.
func blocking(n int64) policy {
	p := perUser(n, time.Second)
	p.Limits[0].Block = time.Hour
	return p
}

// TestBlocksAreSweptWhenTheyAreOver: a block outlives the window of its limit, and is removed when
// it is over. One at an instant of a caller stays for an hour of that time (R13, R20).
func TestBlocksAreSweptWhenTheyAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		l := m.on(blocking(1))
		m.Sweep()
		before := m.Bytes()
		mustAllowN(t, l, K("a"), 2)
		assert.Equal(t, m.Len(), 1, "keys: a block without a history")
		time.Sleep(time.Hour - time.Microsecond)
		m.Sweep()
		assert.Equal(t, mustPeek(t, l, K("a"), 0).Blocked, time.Microsecond, "rest of the block before its end")
		time.Sleep(time.Microsecond)
		assert.Equal(t, mustPeek(t, l, K("a"), 1).Allowed, true, "allowed at its end")
		m.Sweep()
		assert.Equal(t, fmt.Sprint(m.Len(), m.Bytes()), fmt.Sprint(0, before), "keys and bytes that are held behind it")

		start := time.UnixMicro(1_000_000_000_000_000)
		mustAllowN(t, l.At(start), K("a"), 2)
		for i := range 200 { // recordings sweep
			mustAllow(t, l.At(start.Add(2*time.Hour-2*time.Second)), K(fmt.Sprint("b", i)))
		}
		assert.Equal(t, mustPeek(t, l.At(start.Add(time.Second)), K("a"), 1).Allowed, false, "allowed when the trace runs back")
		checkWhole(t, m)
		checkEmptied(t, m)
	})
}

// TestGrantDropsABlockThatIsOver: after the block the next grant removes it, so that the fast path
// finds the history again.
func TestGrantDropsABlockThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		l := m.on(blocking(2))
		for range 3 {
			mustAllow(t, l, K("a"))
		}
		assert.Equal(t, m.Len(), 2, "keys: a history and its block")
		key, d := K("a"), engine.Result{}
		assert.Equal(t, m.Rules(l.rules).AllowFast(&key, 1, &d), false, "decided without the lock of the shard")
		time.Sleep(time.Hour)
		mustPeek(t, l, K("a"), 1)
		assert.Equal(t, m.Len(), 2, "keys after a peek")
		granted(t, mustAllow(t, l, K("a")))
		assert.Equal(t, m.Len(), 1, "keys after a grant")
		assert.Equal(t, m.Rules(l.rules).AllowFast(&key, 1, &d), true, "decided without the lock of the shard")
		checkWhole(t, m)
	})
}

// TestBlocksCountAgainstCaps: a denial whose block has no room fails, and changes nothing (R13, R20).
// A denial that begins no block needs no room.
func TestBlocksCountAgainstCaps(t *testing.T) {
	m := New(Options{MaxKeys: 1})
	l := m.on(blocking(1))
	granted(t, mustAllow(t, l, K("a")))
	before := content(m)
	_, err := l.AllowN(K("a"), 5)
	assert.Error(t, err, engine.ErrFull, "MaxKeys, 1")
	_, err = l.do(K("a"), engine.Call{Op: engine.Probe, N: 5})
	assert.Error(t, err, engine.ErrFull, "MaxKeys, 1")
	_, err = l.do(K("a"), engine.Call{Op: engine.Block, From: 1000})
	assert.Error(t, err, engine.ErrFull, "MaxKeys, 1")
	compareContent(t, "calls without room for a block", content(m), before)
	assert.Equal(t, mustPeek(t, l, K("a"), 5).Allowed, false, "a peek of 5 of 1 units")
	checkWhole(t, m)
	l.Reset(K("a"))
	d := mustAllowN(t, l, K("a"), 5)
	assert.Equal(t, d.Blocked, time.Hour, "blocked for, with room")
	checkWhole(t, m)
	checkEmptied(t, m)
}

// TestSettlementsExceedACapByAnEighth: a settlement of more units than reserved has room beyond a
// cap, and no more than that (R13, R19).
func TestSettlementsExceedACapByAnEighth(t *testing.T) {
	for name, o := range map[string]Options{"keys": {MaxKeys: 800}, "bytes": {MaxBytes: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			m, start := New(o), time.UnixMicro(1_700_000_000_000_000)
			p := perUser(1<<40, time.Minute)
			l := m.on(p).At(start)
			var full error
			reserved := 0
			for ; full == nil; reserved++ {
				_, full = l.do(K(fmt.Sprint(reserved)), engine.Call{N: 1, ID: "job", TTL: 60_000_000})
			}
			later := m.on(p)
			later.rules = policy{Name: "p", Limits: append(p.Limits, limit{Name: "new", Max: 1 << 40, Window: time.Minute, By: []string{"user"}})}.compile()
			later = later.At(start.Add(time.Second))
			settled := 0
			for full = nil; full == nil && settled < reserved; settled++ {
				_, full = later.do(K(fmt.Sprint(settled)), engine.Call{Op: engine.Settle, N: 3, ID: "job"})
			}
			if !errors.Is(full, engine.ErrFull) || settled < 20 {
				t.Errorf("%d settlements beyond the cap, then %v; want some, then ErrFull", settled, full)
			}
			if name == "keys" { // in a block of slots there may be room without further bytes
				_, err := later.do(K("another"), engine.Call{N: 1})
				assert.Error(t, err, engine.ErrFull, "MaxKeys")
			}
			checkWhole(t, m)
			checkEmptied(t, m)
		})
	}
}
