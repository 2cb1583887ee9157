package weir

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/memstats"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/race"
)

var ctx = context.Background()

// mustNew returns a limiter or fails the test.
func mustNew(t testing.TB, p Policy, opts ...Option) *Limiter {
	t.Helper()
	limiter, err := New(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// perUser is a policy of n units a window for each user.
func perUser(n int64, window time.Duration) Policy {
	return Policy{Name: "p", Limits: []Limit{{Name: "user", Max: n, Window: window, By: []string{"user"}}}}
}

// limits is a policy of n limits that all count by user.
func limits(n int) Policy {
	p := Policy{Name: "p"}
	for i := range n {
		p.Limits = append(p.Limits, Limit{Name: fmt.Sprint("l", i), Max: 100, Window: time.Second, By: []string{"user"}})
	}
	return p
}

// TestNoAllocation: a decision on a key that is known allocates nothing, however
// many limits it has.
func TestNoAllocation(t *testing.T) {
	long := strings.Repeat("a long key ", 20)
	for _, n := range []int{1, 2, 4, engine.MaxLimits} {
		l, states := mustNew(t, limits(n)), make([]LimitState, n)
		for _, user := range []string{"42", long} {
			key := K(user)
			calls := map[string]func(){
				"K":      func() { K(user, "b") },
				"Allow":  func() { l.Allow(ctx, K(user)) },
				"Peek":   func() { l.Peek(ctx, key, 1) },
				"Decide": func() { l.Decide(ctx, key, Request{N: 1, States: states}) },
				"At":     func() { l.At(time.UnixMicro(1_700_000_000_000_000)).Allow(ctx, key) },
			}
			for name, f := range calls {
				for range 200 {
					f() // grow the history to its full size
				}
				assert.Equal(t, testing.AllocsPerRun(500, f), 0, "%d limits, %s, key of %d bytes: allocations", n, name, len(user))
			}
		}
	}
	two := mustNew(t, Policy{Name: "p", Dimensions: []string{"a", "b"}, Limits: []Limit{
		{Name: "a", Max: 9, Window: time.Second, By: []string{"a", "b"}}, {Name: "all", Max: 99, Window: time.Second}}})
	two.Allow(ctx, K("1", "2"))
	assert.Equal(t, testing.AllocsPerRun(500, func() { two.Allow(ctx, K("1", "2")) }), 0, "two dimensions: allocations")
}

// TestBytesAKey: a key and an entry take at most so many bytes, measured on the heap.
func TestBytesAKey(t *testing.T) {
	users := make([]string, 40_000)
	for i := range users {
		users[i] = fmt.Sprintf("user:%011d", i) // 16 bytes
	}
	for _, c := range []struct {
		events, keys int
		most         float64 // bytes a key beyond its 16 own ones; half-filled blocks and pages count
	}{{1, 40_000, 100 - 16}, {10, 40_000, 160 - 16}, {100, 8_000, 1024}} {
		if race.Enabled && c.events > 1 {
			continue // it takes seconds
		}
		l := mustNew(t, perUser(1000, time.Hour))
		before := memstats.Live()
		for i := range c.events {
			at := time.UnixMicro(1_700_000_000_000_000 + int64(i))
			for _, u := range users[:c.keys] {
				if d, err := l.At(at).Allow(ctx, K(u)); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
			}
		}
		got := float64(memstats.Live()-before)/float64(c.keys) - 16
		t.Logf("%d events a key: %.1f bytes", c.events, got)
		if got > c.most {
			t.Errorf("%d events a key: %.1f bytes, want at most %.0f", c.events, got, c.most)
		}
		if own := float64(l.memory.Stats().Bytes) / float64(c.keys); own < got {
			t.Errorf("%d events a key: Bytes() says %.1f a key, the heap %.1f", c.events, own, got)
		}
		runtime.KeepAlive(l)
	}
}

// TestR13AtTheCap: at the cap a new key is rejected, a key that counts is never removed,
// and an idle one makes room.
func TestR13AtTheCap(t *testing.T) {
	for name, opts := range map[string][]MemoryOption{
		"MaxKeys, 1000":     {MaxKeys(1000)},
		"MaxBytes, 1048576": {MaxBytes(1 << 20), MaxKeys(1 << 20)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := mustNew(t, perUser(1, time.Minute), WithEngine(NewMemory(opts...)))
				held := 0
				for ; ; held++ {
					_, err := l.Allow(ctx, K(fmt.Sprint(held)))
					if errors.Is(err, ErrFull) {
						if !strings.Contains(err.Error(), name) {
							t.Errorf("the error does not name the cap: %v", err)
						}
						break
					}
					if err != nil || held > 100_000 {
						t.Fatal(held, err)
					}
				}
				if len(opts) == 1 && held != 1000 || held < 500 {
					t.Errorf("the cap was met with %d keys", held)
				}
				for i := range held {
					if d, err := l.Allow(ctx, K(fmt.Sprint(i))); err != nil || d.Allowed {
						t.Fatalf("key %d at the cap: %v %v, want a denial: its history still counts", i, d, err)
					}
				}
				if _, err := l.Peek(ctx, K("new"), 1); err != nil {
					t.Fatal(err)
				}
				// Many keys: some meet a block of the table that is full, and others do not.
				others := make([]Key, 1000)
				for i := range others {
					others[i] = K(fmt.Sprint("other", i))
				}
				rejectAll := func() {
					for i := range others {
						l.Allow(ctx, others[i])
					}
				}
				assert.Equal(t, testing.AllocsPerRun(1, rejectAll), 0, "allocations of %d rejections at the cap", len(others))
				time.Sleep(time.Minute)
				for i := range held / 3 { // bytes are taken in blocks, which these keys may fill less well
					if d, err := l.Allow(ctx, K(fmt.Sprint("later", i))); err != nil || !d.Allowed {
						t.Fatalf("key %d a window later: %v %v, want it allowed: all others are idle", i, d, err)
					}
				}
			})
		})
	}
}

// TestR13MemoryFollowsTheLiveSet: keys that no longer count are removed as decisions go
// on, without a goroutine, and their memory is freed.
func TestR13MemoryFollowsTheLiveSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		l := mustNew(t, perUser(3, time.Second), WithEngine(m))
		peak := int64(0)
		for i := range race.Fewer(200_000) {
			if d, err := l.Allow(ctx, K(fmt.Sprint(i))); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			time.Sleep(time.Millisecond) // 1,000 keys count at any time
			peak = max(peak, m.Stats().Bytes)
		}
		if m.Stats().Keys > 4000 || peak > 1<<20 {
			t.Errorf("1,000 live keys: %d held, %d bytes at the peak", m.Stats().Keys, peak)
		}
		time.Sleep(time.Second)
		m.Sweep()
		if m.Stats().Keys != 0 || m.Stats().Bytes > 64<<10 {
			t.Errorf("after a sweep of idle keys: %d held, %d bytes", m.Stats().Keys, m.Stats().Bytes)
		}
	})
}

// TestR13FullBucketsAreForgotten: a bucket is removed when it is full, though the limit had
// a slower rate before. One that lacks a unit stays.
func TestR13FullBucketsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		bucket := func(max, burst int64, window time.Duration) *Limiter {
			l := Limit{Name: "l", Kind: KindBucket, Max: max, Burst: burst, Window: window, By: []string{"k"}}
			return mustNew(t, Policy{Name: "p", Limits: []Limit{l}}, WithEngine(m))
		}
		slow, fast := bucket(1, 1, 24*time.Hour), bucket(3, 15, 3*time.Second)
		assert.Equal(t, mustAllow(t, slow, K("slow")).Granted, 1, "granted")
		for i := range race.Fewer(100_000) {
			if d, err := fast.Allow(ctx, K(fmt.Sprint(i))); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			time.Sleep(time.Millisecond) // 1,000 buckets lack a unit at any time
		}
		if m.Stats().Keys > 4000 {
			t.Errorf("%d buckets are held; 1,000 lack a unit", m.Stats().Keys)
		}
		assert.Equal(t, mustAllow(t, slow, K("slow")).Granted, 0, "granted after seconds of 24 h")
	})
}

// TestSharedKeyInABubble: in a bubble the clock stands still while a goroutine waits for a mutex, so no caller
// may sleep with a lock.
func TestSharedKeyInABubble(t *testing.T) {
	for range race.Fewer(300) {
		synctest.Test(t, func(t *testing.T) {
			l := mustNew(t, limits(2))
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for range 50 {
						d, err := l.Allow(ctx, K("ann"))
						if err != nil {
							t.Error(err)
						}
						if _, err := l.Refund(ctx, K("ann"), d.At, 1); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// TestRulesDoNotFight: two engines that decide by the same rules in turn keep a form each.
// Compiled rules once had one place for it, and each engine made its own again for every call.
func TestRulesDoNotFight(t *testing.T) {
	if race.Enabled {
		return // the race detector allocates
	}
	rules := mustCompile(t, limits(1))
	engines := []*Memory{NewMemory(), NewMemory()}
	calls := []engine.Call{{Rules: rules, Key: K("ann"), N: 1}}
	turn := func() {
		for _, e := range engines {
			e.Do(ctx, calls)
		}
	}
	turn()
	assert.Equal(t, testing.AllocsPerRun(100, turn), 0.0, "allocations of two engines in turn")
}

// TestReloadsLeaveNothing: an engine keeps nothing of rules that are gone, neither of policies
// that were compiled again nor of calls together.
func TestReloadsLeaveNothing(t *testing.T) {
	needs.Time(t)
	m := NewMemory()
	kept := mustNew(t, limits(2), WithEngine(m))
	reload := func(n int) {
		for i := range n {
			l := mustNew(t, limits(2), WithEngine(m))
			if i%2 == 0 { // attempts of ever new numbers of units have joined rules of their own
				attempt := Request{N: int64(i + 1)}
				calls := []Call{{Limiter: l, Key: K("a"), Request: attempt}, {Limiter: kept, Key: K("b"), Request: attempt}}
				must.Do(t, DecideTogether(ctx, calls))
			}
			if _, err := l.Decide(ctx, K("a"), Request{N: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	reload(1_000)
	before := memstats.Live()
	reload(race.Fewer(100_000))                               // by one goroutine
	for tries := 0; memstats.Live() > before+1<<20; tries++ { // rules end on a goroutine of the runtime
		if tries == 1_000 {
			t.Fatalf("the reloads leave %d bytes", memstats.Live()-before)
		}
	}
}
