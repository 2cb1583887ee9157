package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// slowConn holds each call until its answer channel is used; then it grants all requests.
type slowConn struct {
	mu    sync.Mutex
	calls []*slowCall
}

type slowCall struct {
	script string
	keys   []string
	args   []string
	ctx    context.Context
	answer chan error
}

func (c *slowConn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	call := &slowCall{s.Name, keys, args, ctx, make(chan error, 1)}
	c.mu.Lock()
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	select {
	case err := <-call.answer:
		return strings.Repeat(weirredis.Grant(nine, 1), len(keys)), err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// call returns the last of n calls.
func (c *slowConn) call(t *testing.T, n int) *slowCall {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) != n {
		t.Fatalf("%d calls were made, want %d", len(c.calls), n)
	}
	return c.calls[n-1]
}

// queued is a limiter on an engine on a slowConn.
type queued struct {
	t       *testing.T
	conn    *slowConn
	engine  *weirredis.Engine
	limiter *weir.Limiter
}

func newQueued(t *testing.T, opts ...weirredis.Option) *queued {
	o := &queued{t: t, conn: &slowConn{}}
	o.engine = newEngine(t, o.conn, opts...)
	o.limiter = limiter(t, o.engine, "office", weir.AllOrNothing, perUser(100, time.Minute))
	return o
}

// allow requests a unit for the user and returns a channel with the result.
func (o *queued) allow(ctx context.Context, user string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := o.limiter.Allow(ctx, weir.K(user))
		done <- err
	}()
	synctest.Wait()
	return done
}

// busy starts two calls. end answers them.
func (o *queued) busy() (end func()) {
	o.allow(context.Background(), "first")
	first := o.conn.call(o.t, 1)
	o.allow(context.Background(), "second")
	second := o.conn.call(o.t, 2)
	return func() {
		first.answer <- nil
		second.answer <- nil
		synctest.Wait()
	}
}

// outcome returns the result of a caller, which must have returned.
func (o *queued) outcome(done chan error) error {
	o.t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		return err
	default:
		o.t.Fatal("a caller still waits")
		return nil
	}
}

// wantGrant fails the test unless the caller has a grant.
func (o *queued) wantGrant(user string, done chan error) {
	o.t.Helper()
	if err := o.outcome(done); err != nil {
		o.t.Errorf("%s: %v", user, err)
	}
}

func TestWaitingCallersShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		var waiting []chan error
		for i := range 8 {
			waiting = append(waiting, o.allow(context.Background(), fmt.Sprint("user", i)))
		}
		o.conn.call(t, 2) // the eight wait
		end()
		call := o.conn.call(t, 3)
		if len(call.keys) != 8 || !strings.HasSuffix(call.keys[0], "user0") || !strings.HasSuffix(call.keys[7], "user7") {
			t.Errorf("the call is about %q, want the eight users in their order", call.keys)
		}
		call.answer <- nil
		for i, done := range waiting {
			o.wantGrant(fmt.Sprintf("user%d", i), done)
		}
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

// TestLongQueuesGoInSeveralCalls sends 300 waiting callers in calls of at most 128 requests,
// two calls at a time at most. The requests of a call are in the order of their callers.
func TestLongQueuesGoInSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		for i := range 300 {
			o.allow(context.Background(), fmt.Sprint("user", i))
		}
		end()
		seen := 0
		for i := 2; seen < 300; i++ {
			if n := len(o.conn.calls) - i; n < 1 || n > 2 {
				t.Fatalf("%d calls are in flight, want one or two", n)
			}
			call := o.conn.calls[i]
			from, err := strconv.Atoi(call.keys[0][strings.LastIndex(call.keys[0], "user")+len("user"):])
			if err != nil {
				t.Fatal(err)
			}
			for j, key := range call.keys {
				if !strings.HasSuffix(key, fmt.Sprintf(":user%d", from+j)) {
					t.Errorf("call %d has key %s after user%d, want the callers in their order", i, key, from+j-1)
				}
			}
			if len(call.keys) > 128 {
				t.Errorf("call %d has %d requests, want at most 128", i, len(call.keys))
			}
			seen += len(call.keys)
			call.answer <- nil
			synctest.Wait()
		}
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

// TestTwoBatchesAreInFlight: beside a batch of 8, another starts with 4 callers. A third
// waits until one of the two has ended.
func TestTwoBatchesAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		for i := range 8 {
			o.allow(context.Background(), fmt.Sprint("first", i))
		}
		end()
		o.conn.call(t, 3)
		for i := range 3 {
			o.allow(context.Background(), fmt.Sprint("second", i))
		}
		o.conn.call(t, 3) // three are too few for a call
		o.allow(context.Background(), "second3")
		if second := o.conn.call(t, 4); len(second.keys) != 4 {
			t.Errorf("the second batch is about %q, want four users", second.keys)
		}
		for i := range 8 {
			o.allow(context.Background(), fmt.Sprint("third", i))
		}
		o.conn.call(t, 4).answer <- nil // the second ends before the first
		if third := o.conn.call(t, 5); len(third.keys) != 8 {
			t.Errorf("the third batch is about %q, want eight users", third.keys)
		}
		o.conn.calls[2].answer <- nil
		o.conn.calls[4].answer <- nil
		synctest.Wait()
		if !o.engine.Idle() || o.engine.Counted() != 0 {
			t.Errorf("the queue is not free again: it counts %d callers", o.engine.Counted())
		}
	})
}

// TestBatchTakesHalfOfTheCallers splits 16 waiting callers into two batches, so that both are in
// flight at once.
func TestBatchTakesHalfOfTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		for i := range 16 {
			o.allow(context.Background(), fmt.Sprint("user", i))
		}
		end()
		if second := o.conn.call(t, 4); len(second.keys) != 8 || len(o.conn.calls[2].keys) != 8 {
			t.Errorf("the batches are about %q and %q, want eight users each", o.conn.calls[2].keys, second.keys)
		}
		o.conn.calls[2].answer <- nil
		o.conn.calls[3].answer <- nil
		synctest.Wait()
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

// TestLostConnectionFailsBothBatches: both calls in flight fail with an unknown outcome,
// and callers that still waited are decided by the next call.
func TestLostConnectionFailsBothBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		var sent, waiting []chan error
		for i := range 16 {
			sent = append(sent, o.allow(context.Background(), fmt.Sprint("user", i)))
		}
		end()
		o.conn.call(t, 4)
		for i := range 3 {
			waiting = append(waiting, o.allow(context.Background(), fmt.Sprint("late", i)))
		}
		lost := errors.New("connection reset")
		o.conn.calls[2].answer <- lost
		o.conn.calls[3].answer <- lost
		for i, done := range sent {
			if err := o.outcome(done); !errors.Is(err, lost) || !errors.Is(err, weir.ErrOutcomeUnknown) {
				t.Errorf("user%d: got %v, want %v and ErrOutcomeUnknown", i, err, lost)
			}
		}
		o.conn.call(t, 5).answer <- nil
		for i, done := range waiting {
			o.wantGrant(fmt.Sprint("late", i), done)
		}
		if o.engine.Counted() != 0 {
			t.Errorf("the queue counts %d callers, want none", o.engine.Counted())
		}
	})
}

// TestLargeBatchesMakeCallersWait: while a large batch is in flight, new callers wait and
// share the next call. After a small batch they do not wait.
func TestLargeBatchesMakeCallersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		for i := range 5 {
			o.allow(context.Background(), fmt.Sprint("user", i))
		}
		end()
		o.conn.call(t, 3)
		o.allow(context.Background(), "during")
		o.conn.call(t, 3).answer <- nil
		if call := o.conn.call(t, 4); len(call.keys) != 1 || !strings.HasSuffix(call.keys[0], "during") {
			t.Errorf("after the batch, the call is about %q, want the callers that waited", call.keys)
		}
		o.allow(context.Background(), "beside")
		o.conn.call(t, 5).answer <- nil
		o.conn.calls[3].answer <- nil
		synctest.Wait()
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

func TestDisableBatchingSendsEachCallAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t, weirredis.DisableBatching())
		for i := range 5 {
			o.allow(context.Background(), fmt.Sprint("user", i))
			o.conn.call(t, i+1)
		}
		for _, c := range o.conn.calls {
			c.answer <- nil
		}
	})
}

// A caller cancelled before the call is sent is not part of it, and its error says that
// nothing was sent.
func TestCancelledBeforeTheCallIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		stays := o.allow(context.Background(), "stays")
		left := o.allow(leaving, "leaves")
		waiting := o.engine.Counted()
		cancel()
		err := o.outcome(left)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrUnavailable) || errors.Is(err, weir.ErrOutcomeUnknown) {
			t.Errorf("got %v, want Canceled and ErrUnavailable: nothing was sent", err)
		}
		if n := o.engine.Counted(); n != waiting-1 {
			t.Errorf("the queue counts %d callers, and %d before one left", n, waiting)
		}
		end()
		call := o.conn.call(t, 3)
		if len(call.keys) != 1 || !strings.HasSuffix(call.keys[0], "stays") {
			t.Errorf("the call is about %q, want only the other caller", call.keys)
		}
		call.answer <- nil
		o.wantGrant("who stays", stays)
	})
}

// A cancelled caller among callers with equal requests is not part of the call, whether it
// was the first of them or not.
func TestCancelledAmongEqualsIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		for round, patient := range []int{0, 1, 2} {
			end := o.busy()
			leaving, cancel := context.WithCancel(t.Context())
			var stays chan error
			for i := range 3 {
				if i == patient {
					stays = o.allow(context.Background(), "same")
				} else {
					o.allow(leaving, "same")
				}
			}
			cancel()
			synctest.Wait()
			end()
			call := o.conn.call(t, 3)
			if call.script != "decide" || len(call.keys) != 1 {
				t.Errorf("%d: the call is a %s about %q with %q, want one caller's", round, call.script, call.keys, call.args)
			}
			call.answer <- nil
			o.wantGrant(fmt.Sprintf("%d: who stays", round), stays)
			o.conn.calls = nil
		}
	})
}

// If all waiting callers are cancelled, there is no call, and the queue continues.
func TestAllCancelledBeforeTheCallSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			o.allow(leaving, fmt.Sprint("user", i))
		}
		cancel()
		synctest.Wait()
		end()
		o.conn.call(t, 2)
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
		done := o.allow(context.Background(), "next")
		o.conn.call(t, 3).answer <- nil
		o.wantGrant("the next caller", done)
	})
}

// A caller cancelled during the call returns at once, even the one that sent it. The others
// get their answers.
func TestCancelledDuringTheCallReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		first := o.allow(leaving, "leaves") // it has waited longest, so it sends
		second := o.allow(context.Background(), "stays")
		end()
		call := o.conn.call(t, 3)
		cancel()
		if err := o.outcome(first); !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrOutcomeUnknown) {
			t.Errorf("cancelled: got %v, want Canceled and ErrOutcomeUnknown: it was sent", err)
		}
		if call.ctx.Err() != nil {
			t.Error("the call has ended, but a caller waits for it")
		}
		call.answer <- nil
		o.wantGrant("who stayed", second)
	})
}

// A call is cancelled when all its callers are.
func TestAllCancelledCancelTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			o.allow(leaving, fmt.Sprint("user", i))
		}
		end()
		call := o.conn.call(t, 3)
		cancel()
		synctest.Wait()
		if call.ctx.Err() == nil {
			t.Error("the call continues without a caller")
		}
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

// A call lasts until the last of its callers' deadlines.
func TestCallHasTheLatestDeadlineOfItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		soon, cancel1 := context.WithTimeout(t.Context(), time.Second)
		defer cancel1()
		late, cancel2 := context.WithTimeout(t.Context(), time.Minute)
		defer cancel2()
		first, second := o.allow(soon, "soon"), o.allow(late, "late")
		end()
		call := o.conn.call(t, 3)
		if got, ok := call.ctx.Deadline(); !ok || time.Until(got) != time.Minute {
			t.Errorf("the call has until %v, %v; want a minute", got, ok)
		}
		time.Sleep(time.Second)
		if err := o.outcome(first); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a second: got %v, want DeadlineExceeded", err)
		}
		call.answer <- nil
		o.wantGrant("with a minute", second)
	})
}

// An error of a call is returned to all its callers.
func TestErrorOfACallReachesAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newQueued(t)
		end := o.busy()
		var waiting []chan error
		for i := range 3 {
			waiting = append(waiting, o.allow(context.Background(), fmt.Sprint("user", i)))
		}
		end()
		lost := errors.New("connection reset")
		o.conn.call(t, 3).answer <- lost
		for i, done := range waiting {
			if err := o.outcome(done); !errors.Is(err, lost) || !errors.Is(err, weir.ErrOutcomeUnknown) {
				t.Errorf("user%d: got %v, want %v and ErrOutcomeUnknown", i, err, lost)
			}
		}
	})
}

// quickConn grants all requests at once.
type quickConn struct{ requests atomic.Int64 }

func (c *quickConn) Eval(ctx context.Context, _ *weirredis.Script, keys, _ []string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", weirredis.UnsentError{Err: err}
	}
	c.requests.Add(int64(len(keys)))
	return strings.Repeat(weirredis.Grant(nine, 1), len(keys)), nil
}

// TestCancelledCallersAreCountedRightly cancels many callers at random times. Each gets an
// answer, or was not sent, or gets ErrOutcomeUnknown. In the end the queue is empty.
func TestCancelledCallersAreCountedRightly(t *testing.T) {
	conn := &quickConn{}
	e := newEngine(t, conn)
	l := limiter(t, e, "crowd", weir.AllOrNothing, perUser(100, time.Minute))
	var all sync.WaitGroup
	var granted, unknown atomic.Int64
	for i := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 4))
			for range 500 {
				ctx, cancel := context.WithCancel(context.Background())
				if patience := time.Duration(r.IntN(40)) * time.Microsecond; patience < 20*time.Microsecond {
					time.AfterFunc(patience, cancel)
				}
				_, err := l.Allow(ctx, weir.K(fmt.Sprint(i)))
				switch {
				case err == nil:
					granted.Add(1)
				case errors.Is(err, weir.ErrOutcomeUnknown):
					unknown.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for !e.Idle() { // a call without callers may still be in flight
		time.Sleep(time.Millisecond)
	}
	if n := e.Counted(); n != 0 {
		t.Errorf("the queues count %d callers, want none", n)
	}
	if sent := conn.requests.Load(); sent < granted.Load() || sent > granted.Load()+unknown.Load() {
		t.Errorf("%d were sent, %d granted and %d with an unknown outcome", sent, granted.Load(), unknown.Load())
	}
}
