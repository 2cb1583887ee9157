package enforce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirtest"
)

// sighting is a call with its outcome, and its times by the clock of the caller.
type sighting struct {
	asked, told time.Time
	o           Outcome
}

// enoughBlocks is the number of blocks of each key that TestBlockHammer waits for, a minute
// at most.
const enoughBlocks = 10

// TestBlockHammer: many callers at once on few keys, on every engine and on a store that
// fails at times. No window holds more than Max. Calls after a reported block are denied
// until it ends. A block has its exact length. In the end no key is denied.
func TestBlockHammer(t *testing.T) {
	t.Parallel() // it waits
	const window, block = 20 * time.Millisecond, 60 * time.Millisecond
	test := func(t *testing.T, e engine.Engine, store *weirtest.Faulty) {
		t.Parallel()
		r := ruleOf(t, e, fmt.Sprintf(`{user: "3 per %dms per user, then block %dms", all: 1_000 per second}`, window.Milliseconds(), block.Milliseconds()))
		keys := []weir.Key{weir.K("a"), weir.K("b")}
		var mu sync.Mutex // protects the following
		seen := make([][]sighting, len(keys))
		blocks := []map[time.Time]bool{{}, {}} // by key and end
		enough := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(blocks[0]) >= enoughBlocks && len(blocks[1]) >= enoughBlocks
		}
		restored := breakAndRestore(store)
		late := time.Now().Add(time.Minute)
		var callers sync.WaitGroup
		for i := range 12 {
			callers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 3))
				for !enough() && time.Now().Before(late) {
					k := random.IntN(len(keys))
					asked := time.Now()
					o, err := r.Decide(context.Background(), &Request{Target: Target{Key: keys[k]}, N: 1})
					if err != nil {
						if store == nil || !errors.Is(err, weir.ErrUnavailable) && !errors.Is(err, weir.ErrOutcomeUnknown) {
							t.Error(err)
						}
						continue
					}
					mu.Lock()
					seen[k] = append(seen[k], sighting{asked, time.Now(), o})
					if until := o.Applied.Blocked; !until.IsZero() {
						blocks[k][until] = true
					}
					mu.Unlock()
					time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
				}
			})
		}
		callers.Wait()
		restored()
		for k, all := range seen {
			auditBlocks(t, all, window, block)
			time.Sleep(block + window)
			o, err := r.Decide(context.Background(), &Request{Target: Target{Key: keys[k]}, N: 3, Op: engine.Peek})
			if err != nil || !o.Decision.Allowed {
				t.Errorf("when all is over: %+v, %v", o, err)
			}
		}
	}
	onEach(t, func(t *testing.T, e engine.Engine) { test(t, e, nil) })
	t.Run("cluster", func(t *testing.T) { test(t, onRedis(t, redistest.StartCluster(t).Conn(t)), nil) })
	t.Run("faults", func(t *testing.T) {
		store := weirtest.NewFaulty(weir.NewMemory())
		test(t, fallback.New(store, fallback.Deny, fallback.FailureThreshold(0)), store)
	})
}

// breakAndRestore lets a store fail for a fifth of the time until the returned function is
// called. There is none to break if store is nil.
func breakAndRestore(store *weirtest.Faulty) (restored func()) {
	if store == nil {
		return func() {}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			store.Break([]weirtest.Fault{weirtest.Down(), weirtest.Lost()}[i%2])
			time.Sleep(5 * time.Millisecond)
			store.Restore()
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// auditBlocks compares the calls of one key with the limit and with its blocks.
func auditBlocks(t *testing.T, all []sighting, window, block time.Duration) {
	t.Helper()
	var grants []time.Time
	blocked := map[time.Time]time.Time{} // end of a block, and when it was first reported
	for _, s := range all {
		d := &s.o.Decision
		if d.Allowed {
			grants = append(grants, d.At)
			continue
		}
		until := s.o.Applied.Blocked
		if until.IsZero() {
			t.Errorf("denied without a block: %+v", d)
			continue
		}
		if rest := until.Sub(d.At); rest <= 0 || rest > block || d.RetryAfter < rest {
			t.Errorf("blocked for %v of %v: %+v", rest, block, d)
		}
		if told, ok := blocked[until]; !ok || s.told.Before(told) {
			blocked[until] = s.told
		}
	}
	slices.SortFunc(grants, time.Time.Compare)
	for i := 3; i < len(grants); i++ {
		if span := grants[i].Sub(grants[i-3]); span < window {
			t.Errorf("4 grants of at most 3 within %v of %v", span, window)
		}
	}
	for until, told := range blocked {
		for _, s := range all {
			if d := &s.o.Decision; d.Allowed && s.asked.After(told) && d.At.Before(until) {
				t.Errorf("granted at %v, called %v after a block until %v was reported", d.At, s.asked.Sub(told), until)
			}
		}
	}
	ends := slices.SortedFunc(maps.Keys(blocked), time.Time.Compare)
	for i := 1; i < len(ends); i++ {
		if apart := ends[i].Sub(ends[i-1]); apart < block {
			t.Errorf("a block until %v, and another until %v: %v apart, and each lasts %v", ends[i-1], ends[i], apart, block)
		}
	}
	if len(grants) < 4 || len(ends) < 3 {
		t.Errorf("%d grants and %d blocks show little", len(grants), len(ends))
	}
}
