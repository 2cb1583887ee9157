package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// slowConn answers no call before it is told to; then it grants everything.
type slowConn struct {
	mu    sync.Mutex
	calls []*slowCall
}

type slowCall struct {
	script string
	keys   []string
	ctx    context.Context
	answer chan error
}

func (c *slowConn) Eval(ctx context.Context, s *weirredis.Script, keys, _ []string) (string, error) {
	call := &slowCall{s.Name, keys, ctx, make(chan error, 1)}
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

// call waits until there are so many calls and returns the last.
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

// office is an engine on a slowConn, and those who ask it.
type office struct {
	t       *testing.T
	conn    *slowConn
	engine  *weirredis.Engine
	limiter *weir.Limiter
}

func newOffice(t *testing.T, opts ...weirredis.Option) *office {
	o := &office{t: t, conn: &slowConn{}}
	o.engine = newEngine(t, o.conn, opts...)
	o.limiter = limiter(t, o.engine, "office", weir.AllOrNothing, perUser(100, time.Minute))
	return o
}

// ask asks for a user and returns where the outcome will be.
func (o *office) ask(ctx context.Context, user string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := o.limiter.Allow(ctx, weir.K(user))
		done <- err
	}()
	synctest.Wait()
	return done
}

// busy has two callers whose calls are under way, and returns what ends them.
func (o *office) busy() (end func()) {
	o.ask(context.Background(), "first")
	first := o.conn.call(o.t, 1)
	o.ask(context.Background(), "second")
	second := o.conn.call(o.t, 2)
	return func() {
		first.answer <- nil
		second.answer <- nil
		synctest.Wait()
	}
}

// outcome is what became of a caller; it must be known by now.
func (o *office) outcome(done chan error) error {
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

// wantGrant reports a caller who got no decision by now.
func (o *office) wantGrant(who string, done chan error) {
	o.t.Helper()
	if err := o.outcome(done); err != nil {
		o.t.Errorf("%s: %v", who, err)
	}
}

func TestWaitingCallersShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		var waiting []chan error
		for i := range 10 {
			waiting = append(waiting, o.ask(context.Background(), fmt.Sprint("user", i)))
		}
		o.conn.call(t, 2) // nobody else has called
		end()
		call := o.conn.call(t, 3)
		if len(call.keys) != 10 || !strings.HasSuffix(call.keys[0], "user0") || !strings.HasSuffix(call.keys[9], "user9") {
			t.Errorf("the call is about %q, want the ten users in their order", call.keys)
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

func TestLongQueuesGoInSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		for i := range 300 {
			o.ask(context.Background(), fmt.Sprint("user", i))
		}
		end()
		if got := len(o.conn.calls[2].keys) + len(o.conn.calls[3].keys); got != 256 {
			t.Errorf("two calls are about %d users, want 256", got)
		}
		o.conn.calls[2].answer <- nil
		o.conn.call(t, 4) // what does not fill a call waits for the other crowd
		o.conn.calls[3].answer <- nil
		if last := o.conn.call(t, 5); len(last.keys) != 44 {
			t.Errorf("the last call is about %d users, want 44", len(last.keys))
		}
		o.conn.calls[4].answer <- nil
		synctest.Wait()
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

// TestCrowdsStayTogether: after a call for many they go in one call again, and who
// comes meanwhile waits for it; few callers do not wait for each other.
func TestCrowdsStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		for i := range 5 {
			o.ask(context.Background(), fmt.Sprint("user", i))
		}
		end()
		o.conn.call(t, 3)
		o.ask(context.Background(), "during")
		o.conn.call(t, 3).answer <- nil
		if call := o.conn.call(t, 4); len(call.keys) != 1 || !strings.HasSuffix(call.keys[0], "during") {
			t.Errorf("after the crowd's, the call is about %q, want who came during it", call.keys)
		}
		o.ask(context.Background(), "beside")
		o.conn.call(t, 5).answer <- nil
		o.conn.calls[3].answer <- nil
		synctest.Wait()
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

func TestNoCoalescing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, weirredis.DisableBatching())
		for i := range 5 {
			o.ask(context.Background(), fmt.Sprint("user", i))
			o.conn.call(t, i+1)
		}
		for _, c := range o.conn.calls {
			c.answer <- nil
		}
	})
}

// Who gives up before the call is sent is not asked for, and is told so.
func TestLeavingBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		stays := o.ask(context.Background(), "stays")
		left := o.ask(leaving, "leaves")
		cancel()
		err := o.outcome(left)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrUnavailable) || errors.Is(err, weir.ErrUnknownFate) {
			t.Errorf("got %v, want Canceled and ErrUnavailable: nothing was sent", err)
		}
		end()
		call := o.conn.call(t, 3)
		if len(call.keys) != 1 || !strings.HasSuffix(call.keys[0], "stays") {
			t.Errorf("the call is about %q, want only who stays", call.keys)
		}
		call.answer <- nil
		o.wantGrant("who stays", stays)
	})
}

// Who gives up among callers who ask the same is not asked for either, be he the
// first of them or not.
func TestLeavingAmongEquals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		for round, patient := range []int{0, 1, 2} {
			end := o.busy()
			leaving, cancel := context.WithCancel(t.Context())
			var stays chan error
			for i := range 3 {
				if i == patient {
					stays = o.ask(context.Background(), "same")
				} else {
					o.ask(leaving, "same")
				}
			}
			cancel()
			synctest.Wait()
			end()
			call := o.conn.call(t, 3)
			if call.script != "batch" || len(call.keys) != 1 {
				t.Errorf("%d: the call is a %s about %q, want one caller's", round, call.script, call.keys)
			}
			call.answer <- nil
			o.wantGrant(fmt.Sprintf("%d: who stays", round), stays)
			o.conn.calls = nil
		}
	})
}

// When all who waited have given up there is no call, and the queue continues.
func TestAllLeaveBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			o.ask(leaving, fmt.Sprint("user", i))
		}
		cancel()
		synctest.Wait()
		end()
		o.conn.call(t, 2)
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
		done := o.ask(context.Background(), "next")
		o.conn.call(t, 3).answer <- nil
		o.wantGrant("the next caller", done)
	})
}

// Who gives up during the call returns at once, be it the one who sent it; the
// others get their answers.
func TestLeavingDuringTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		first := o.ask(leaving, "leaves") // it has waited longest, so it sends
		second := o.ask(context.Background(), "stays")
		end()
		call := o.conn.call(t, 3)
		cancel()
		if err := o.outcome(first); !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrUnknownFate) {
			t.Errorf("who left: got %v, want Canceled and ErrUnknownFate: it was sent", err)
		}
		if call.ctx.Err() != nil {
			t.Error("the call has ended, and somebody still waits for it")
		}
		call.answer <- nil
		o.wantGrant("who stayed", second)
	})
}

// A call that nobody waits for any more is broken off.
func TestAllLeaveDuringTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		leaving, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			o.ask(leaving, fmt.Sprint("user", i))
		}
		end()
		call := o.conn.call(t, 3)
		cancel()
		synctest.Wait()
		if call.ctx.Err() == nil {
			t.Error("the call goes on though nobody waits for it")
		}
		if !o.engine.Idle() {
			t.Error("the queue is not free again")
		}
	})
}

// A call lasts until the last of its callers' deadlines.
func TestDeadlinesOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		soon, cancel1 := context.WithTimeout(t.Context(), time.Second)
		defer cancel1()
		late, cancel2 := context.WithTimeout(t.Context(), time.Minute)
		defer cancel2()
		first, second := o.ask(soon, "soon"), o.ask(late, "late")
		end()
		call := o.conn.call(t, 3)
		if got, ok := call.ctx.Deadline(); !ok || time.Until(got) != time.Minute {
			t.Errorf("the call has until %v, %v; want a minute", got, ok)
		}
		time.Sleep(time.Second)
		if err := o.outcome(first); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who had a second: got %v, want DeadlineExceeded", err)
		}
		call.answer <- nil
		o.wantGrant("who had a minute", second)
	})
}

// What goes wrong with a call goes wrong for all its callers.
func TestFailedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		end := o.busy()
		var waiting []chan error
		for i := range 3 {
			waiting = append(waiting, o.ask(context.Background(), fmt.Sprint("user", i)))
		}
		end()
		lost := errors.New("connection reset")
		o.conn.call(t, 3).answer <- lost
		for i, done := range waiting {
			if err := o.outcome(done); !errors.Is(err, lost) || !errors.Is(err, weir.ErrUnknownFate) {
				t.Errorf("user%d: got %v, want %v and ErrUnknownFate", i, err, lost)
			}
		}
	})
}

// quickConn grants everything at once.
type quickConn struct{ asked atomic.Int64 }

func (c *quickConn) Eval(ctx context.Context, _ *weirredis.Script, keys, _ []string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", weirredis.UnsentError{Err: err}
	}
	c.asked.Add(int64(len(keys)))
	return strings.Repeat(weirredis.Grant(nine, 1), len(keys)), nil
}

// TestCrowd has many callers come and go at any time: each is answered or was not
// asked for, unless he is told that nobody knows, and in the end the queue is free.
func TestCrowd(t *testing.T) {
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
				case errors.Is(err, weir.ErrUnknownFate):
					unknown.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for !e.Idle() { // a call whose callers have all left may still be under way
		time.Sleep(time.Millisecond)
	}
	if asked := conn.asked.Load(); asked < granted.Load() || asked > granted.Load()+unknown.Load() {
		t.Errorf("%d were asked for, %d granted and %d left open", asked, granted.Load(), unknown.Load())
	}
}
