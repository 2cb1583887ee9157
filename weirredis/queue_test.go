package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirredis"
)

// slowConn holds each call until its answer channel is used; then it grants all requests.
type slowConn struct {
	mu    sync.Mutex
	calls []*slowCall
}

type slowCall struct {
	users  []string // users of the requests, in their order
	ctx    context.Context
	answer chan error
}

func (c *slowConn) Eval(ctx context.Context, _ *weirredis.Script, keys, _ []string) (string, error) {
	call := &slowCall{ctx: ctx, answer: make(chan error, 1)}
	for _, key := range keys {
		call.users = append(call.users, key[strings.LastIndex(key, ":")+1:])
	}
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

// queued is a limiter on an engine on a slowConn.
type queued struct {
	t       *testing.T
	conn    *slowConn
	engine  *weirredis.Engine
	limiter *weir.Limiter
}

// withQueue runs a test with two calls in flight, which end answers. After it the queue must
// be free again.
func withQueue(t *testing.T, test func(t *testing.T, o *queued, end func()), opts ...weirredis.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &queued{t: t, conn: &slowConn{}}
		o.engine = newEngine(t, o.conn, opts...)
		o.limiter = limiter(t, o.engine, "office", weir.AllOrNothing, perUser(100, time.Minute))
		first, second := o.allow(ctx, "first"), o.allow(ctx, "second")
		o.call(2)
		test(t, o, func() {
			o.answer(nil, 0, 1)
			o.wantGrants(first, second)
		})
		synctest.Wait()
		if len(opts) == 0 && (!o.engine.Idle() || o.engine.Counted() != 0) {
			t.Errorf("the queue is not free again: it counts %d callers", o.engine.Counted())
		}
	})
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

// allowAll is allow for n users: name0, name1 …
func (o *queued) allowAll(ctx context.Context, name string, n int) (all []chan error) {
	for i := range n {
		all = append(all, o.allow(ctx, fmt.Sprint(name, i)))
	}
	return all
}

// call returns the last of n calls. If users are named, it fails the test unless the call is
// about them.
func (o *queued) call(n int, users ...string) *slowCall {
	o.t.Helper()
	synctest.Wait()
	o.conn.mu.Lock()
	defer o.conn.mu.Unlock()
	if len(o.conn.calls) != n {
		o.t.Fatalf("%d calls were made, want %d", len(o.conn.calls), n)
	}
	call := o.conn.calls[n-1]
	if len(users) > 0 && !slices.Equal(call.users, users) {
		o.t.Errorf("call %d is about %q, want %q", n, call.users, users)
	}
	return call
}

// answer ends the calls with those numbers, counted from 0.
func (o *queued) answer(err error, calls ...int) {
	for _, i := range calls {
		o.conn.mu.Lock()
		call := o.conn.calls[i]
		o.conn.mu.Unlock()
		call.answer <- err // which may begin another call
	}
	synctest.Wait()
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

// wantGrants fails the test unless all callers have a grant.
func (o *queued) wantGrants(callers ...chan error) {
	o.t.Helper()
	for i, done := range callers {
		if err := o.outcome(done); err != nil {
			o.t.Errorf("caller %d: %v", i, err)
		}
	}
}

// names returns name0, name1 … up to the number n - 1.
func names(name string, from, n int) (all []string) {
	for i := from; i < n; i++ {
		all = append(all, fmt.Sprint(name, i))
	}
	return all
}

// TestLongQueuesGoInSeveralCalls sends 300 waiting callers in calls of at most 128 requests,
// two calls at a time at most. The requests of a call are in the order of their callers.
func TestLongQueuesGoInSeveralCalls(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		waiting := o.allowAll(ctx, "user", 300)
		end()
		seen := 0
		for i := 2; seen < 300; i++ {
			if n := len(o.conn.calls) - i; n < 1 || n > 2 {
				t.Fatalf("%d calls are in flight, want one or two", n)
			}
			users := o.conn.calls[i].users
			from, err := strconv.Atoi(strings.TrimPrefix(users[0], "user"))
			if err != nil || !slices.Equal(users, names("user", from, from+len(users))) || len(users) > 128 {
				t.Errorf("call %d is about %q, want at most 128 callers in their order", i, users)
			}
			seen += len(users)
			o.answer(nil, i)
		}
		o.wantGrants(waiting...)
	})
}

// TestTwoBatchesAreInFlight: beside a batch of 8, another starts with 4 callers. A third
// waits until one of the two has ended.
func TestTwoBatchesAreInFlight(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		o.allowAll(ctx, "first", 8)
		end()
		o.call(3)
		o.allowAll(ctx, "second", 3)
		o.call(3) // three are too few for a call
		o.allow(ctx, "second3")
		o.call(4, names("second", 0, 4)...)
		o.allowAll(ctx, "third", 8)
		o.call(4)
		o.answer(nil, 3) // the second ends before the first
		o.call(5, names("third", 0, 8)...)
		o.answer(nil, 2, 4)
	})
}

// TestBatchTakesHalfOfTheCallers splits 16 waiting callers into two batches, so that both are in
// flight together.
func TestBatchTakesHalfOfTheCallers(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		o.allowAll(ctx, "user", 16)
		end()
		o.call(4)
		if first, second := o.conn.calls[2].users, o.conn.calls[3].users; len(first) != 8 || len(second) != 8 {
			t.Errorf("the batches are about %q and %q, want eight users each", first, second)
		}
		o.answer(nil, 2, 3)
	})
}

// TestLostConnectionFailsBothBatches: all callers of both calls in flight fail with an unknown
// outcome, and callers that still waited are decided by the next call.
func TestLostConnectionFailsBothBatches(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		sent := o.allowAll(ctx, "user", 16)
		end()
		o.call(4)
		waiting := o.allowAll(ctx, "late", 3)
		lost := errors.New("connection reset")
		o.answer(lost, 2, 3)
		for i, done := range sent {
			if err := o.outcome(done); !errors.Is(err, lost) || !errors.Is(err, weir.ErrOutcomeUnknown) {
				t.Errorf("user%d: got %v, want %v and ErrOutcomeUnknown", i, err, lost)
			}
		}
		o.call(5)
		o.answer(nil, 4)
		o.wantGrants(waiting...)
	})
}

// TestLargeBatchesMakeCallersWait: while a large batch is in flight, new callers wait and
// share the next call. After a small batch they do not wait.
func TestLargeBatchesMakeCallersWait(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		o.allowAll(ctx, "user", 5)
		end()
		o.call(3)
		o.allow(ctx, "during")
		o.call(3)
		o.answer(nil, 2)
		o.call(4, "during")
		o.allow(ctx, "beside")
		o.call(5)
		o.answer(nil, 3, 4)
	})
}

func TestDisableBatchingSendsEachCallAlone(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		for i := range 5 {
			o.allow(ctx, fmt.Sprint("user", i))
			o.call(3 + i)
		}
		end()
		o.answer(nil, 2, 3, 4, 5, 6)
	}, weirredis.DisableBatching())
}

// TestCancelledBeforeTheCallIsNotSent: a caller cancelled before the call is not part of it,
// whether it was the first or not. Its error is that of a call that was not sent.
func TestCancelledBeforeTheCallIsNotSent(t *testing.T) {
	for patient := range 3 {
		withQueue(t, func(t *testing.T, o *queued, end func()) {
			leaving, cancel := context.WithCancel(t.Context())
			var stays chan error
			var left []chan error
			for i := range 3 {
				if i == patient {
					stays = o.allow(ctx, "same")
				} else {
					left = append(left, o.allow(leaving, "same"))
				}
			}
			waiting := o.engine.Counted()
			cancel()
			for _, done := range left {
				err := o.outcome(done)
				if !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrUnavailable) || errors.Is(err, weir.ErrOutcomeUnknown) {
					t.Errorf("got %v, want Canceled and ErrUnavailable: nothing was sent", err)
				}
			}
			assert.Equal(t, o.engine.Counted(), waiting-2, "callers that the queue counts, %d before two left", waiting)
			end()
			o.call(3, "same")
			o.answer(nil, 2)
			o.wantGrants(stays)
		})
	}
}

// TestAllCancelledBeforeTheCallSendNothing: if all waiting callers are cancelled, there is no
// call, and the queue continues.
func TestAllCancelledBeforeTheCallSendNothing(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		leaving, cancel := context.WithCancel(t.Context())
		o.allowAll(leaving, "user", 3)
		cancel()
		synctest.Wait()
		end()
		o.call(2)
		done := o.allow(ctx, "next")
		o.call(3, "next")
		o.answer(nil, 2)
		o.wantGrants(done)
	})
}

// TestCancelledDuringTheCallReturnsImmediately: that holds even for the caller that sent the
// call. The others get their answers. A call without callers is cancelled.
func TestCancelledDuringTheCallReturnsImmediately(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		leaving, cancel := context.WithCancel(t.Context())
		first := o.allow(leaving, "leaves") // it has waited longest, so it sends
		second := o.allow(ctx, "stays")
		end()
		call := o.call(3)
		cancel()
		if err := o.outcome(first); !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrOutcomeUnknown) {
			t.Errorf("cancelled: got %v, want Canceled and ErrOutcomeUnknown: it was sent", err)
		}
		if call.ctx.Err() != nil {
			t.Error("the call has ended, but a caller waits for it")
		}
		o.answer(nil, 2)
		o.wantGrants(second)
	})
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		leaving, cancel := context.WithCancel(t.Context())
		o.allowAll(leaving, "user", 3)
		end()
		call := o.call(3)
		cancel()
		synctest.Wait()
		if call.ctx.Err() == nil {
			t.Error("the call continues without a caller")
		}
	})
}

// TestCallHasTheLatestDeadlineOfItsCallers: a call lasts until the last of its callers'
// deadlines.
func TestCallHasTheLatestDeadlineOfItsCallers(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		soon, cancel1 := context.WithTimeout(t.Context(), time.Second)
		defer cancel1()
		late, cancel2 := context.WithTimeout(t.Context(), time.Minute)
		defer cancel2()
		first, second := o.allow(soon, "soon"), o.allow(late, "late")
		end()
		call := o.call(3)
		if got, ok := call.ctx.Deadline(); !ok || time.Until(got) != time.Minute {
			t.Errorf("the call has until %v, %v; want a minute", got, ok)
		}
		time.Sleep(time.Second)
		assert.Error(t, o.outcome(first), context.DeadlineExceeded) // after its second
		o.answer(nil, 2)
		o.wantGrants(second)
	})
}

// TestClientTimeoutIsNotDeadlineExceeded: a timeout of the client is not reported as the
// end of the caller's context.
func TestClientTimeoutIsNotDeadlineExceeded(t *testing.T) {
	withQueue(t, func(t *testing.T, o *queued, end func()) {
		end()
		caller := o.allow(ctx, "a")
		o.call(3)
		o.answer(context.DeadlineExceeded, 2)
		err := o.outcome(caller)
		var s *weirredis.StoreError
		if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, weir.ErrOutcomeUnknown) || !errors.As(err, &s) || !strings.Contains(err.Error(), "deadline") {
			t.Errorf("got %v, want a StoreError with an unknown outcome that is no DeadlineExceeded", err)
		}
	})
}

// quickConn grants all requests immediately.
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
	must.Await(t, "no call without callers is in flight", e.Idle)
	assert.Equal(t, e.Counted(), 0, "callers that the queue counts")
	if sent := conn.requests.Load(); sent < granted.Load() || sent > granted.Load()+unknown.Load() {
		t.Errorf("%d were sent, %d granted and %d with an unknown outcome", sent, granted.Load(), unknown.Load())
	}
}
