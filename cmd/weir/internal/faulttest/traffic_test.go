package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// call is one attempt and its result.
type call struct {
	user     string
	n        int64
	granted  int64
	degraded bool // a fallback decided; the store may have counted the call or not
	err      error
	from, to time.Duration // when it was made and when it returned, since the rig's start
}

// outcomeUnknown reports whether the outcome of a call with this error is unknown.
func outcomeUnknown(err error) bool {
	var s *weirredis.StoreError
	return errors.As(err, &s) && s.OutcomeUnknown || errors.Is(err, weir.ErrOutcomeUnknown)
}

// attempt makes one call.
func (g *rig) attempt(ctx context.Context, user string, n int64) call {
	c := call{user: user, n: n, from: g.clock()}
	d, err := g.limiter.AllowN(ctx, weir.K(user), n)
	c.granted, c.degraded, c.err, c.to = d.Granted, d.Degraded, err, g.clock()
	return c
}

// traffic runs callers on the rig until stop is closed.
type traffic struct {
	rig      *rig
	deadline time.Duration // of each call
	stop     chan struct{}
	callers  sync.WaitGroup
	beside   *traffic

	mu    sync.Mutex
	calls []call
}

// grace is the time that a call may take beyond its deadline on a crowded machine. A
// call that ignores its deadline takes an aeon.
const grace = 15 * time.Second

// traffic starts callers; each call has the deadline. Half as many callers start on the
// rig beside.
func (g *rig) traffic(callers int, deadline time.Duration, random *rand.Rand) *traffic {
	f := &traffic{rig: g, deadline: deadline, stop: make(chan struct{})}
	for range callers {
		mine := rand.New(rand.NewPCG(random.Uint64(), 0))
		f.callers.Go(func() { f.keepCalling(mine) })
	}
	if g.beside != nil {
		f.beside = g.beside.traffic((callers+1)/2, deadline, random)
	}
	return f
}

func (f *traffic) keepCalling(random *rand.Rand) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), f.deadline)
		c := f.rig.attempt(ctx, f.rig.users[random.IntN(len(f.rig.users))], 1+random.Int64N(3))
		cancel()
		f.add(c)
		pause := time.Duration(random.IntN(1000)) * time.Microsecond
		if c.granted == 0 {
			pause *= 5
		}
		select {
		case <-f.stop:
			return
		case <-time.After(pause):
		}
	}
}

func (f *traffic) add(c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
}

// has reports whether a call with the property has returned.
func (f *traffic) has(property func(call) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.calls, property)
}

// flows returns when 200 calls made after now have been answered. Before a fault it
// ensures that there is traffic; after a fault it checks that the client recovers.
func (f *traffic) flows(t testing.TB) {
	t.Helper()
	const enough = 200
	now, seen, answered := f.rig.clock(), 0, 0
	eventually(t, "waiting for answers", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for ; seen < len(f.calls); seen++ {
			if c := f.calls[seen]; c.err == nil && c.from > now {
				answered++
			}
		}
		if answered >= enough {
			return nil
		}
		err := errors.New("no call has returned")
		if seen > 0 {
			err = f.calls[seen-1].err
		}
		return fmt.Errorf("%d calls were answered; the last error is: %v", answered, err)
	})
}

// end stops the traffic, checks that all calls returned in time, and returns them. Calls
// on the rig beside are kept in its done.
func (f *traffic) end(t testing.TB) []call {
	t.Helper()
	if f.beside != nil {
		f.rig.beside.done = append(f.rig.beside.done, f.beside.end(t)...)
	}
	close(f.stop)
	f.callers.Wait()
	inTime(t, f.calls, f.deadline)
	return f.calls
}

// unharmed ends the traffic after a fault in which the store lost nothing, and returns its calls.
// Some of them have failed, or none.
func (f *traffic) unharmed(t testing.TB, someFail bool) []call {
	t.Helper()
	f.flows(t)
	calls := f.end(t)
	if someFail {
		someFailed(t, calls)
	} else {
		noErrors(t, calls)
	}
	f.rig.settle(t, calls, nothingLost)
	f.rig.audit(t, calls, 0)
	return calls
}

// recovered ends the traffic some time after an outage in which the store may have lost units.
func (f *traffic) recovered(t testing.TB) {
	t.Helper()
	now := f.rig.clock()
	f.flows(t)
	calls := f.end(t)
	someFailed(t, calls)
	lost := f.rig.settle(t, calls, now)
	f.rig.audit(t, calls, lost)
	t.Logf("the store lost %d units", lost)
}

// inTime fails the test if a call outlasted its deadline.
func inTime(t testing.TB, calls []call, deadline time.Duration) {
	t.Helper()
	for _, c := range calls {
		if took := c.to - c.from; took > deadline+grace {
			t.Errorf("call at %v: got %v after %v, want an answer or an error after %v", c.from, c.err, took, deadline)
		}
	}
}

// failures returns the number of failed calls.
func failures(calls []call) int {
	n := 0
	for _, c := range calls {
		if c.err != nil {
			n++
		}
	}
	return n
}

// noErrors fails the test if a call failed.
func noErrors(t testing.TB, calls []call) {
	t.Helper()
	for _, c := range calls {
		if c.err != nil {
			t.Errorf("%d of %d calls failed, want none; the first at %v: %v", failures(calls), len(calls), c.from, c.err)
			return
		}
	}
}

// someFailed fails the test if no call failed: then the fault had no effect.
func someFailed(t testing.TB, calls []call) {
	t.Helper()
	if failures(calls) == 0 {
		t.Errorf("none of %d calls failed because of the fault", len(calls))
	}
}
