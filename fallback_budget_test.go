package weir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirtest"
)

// deaf is a fault that ignores contexts: it hangs until release is closed, then
// does as then says.
func deaf(release <-chan struct{}, then weirtest.Fault) weirtest.Fault {
	return func(ctx context.Context, call func()) error {
		<-release
		return then(ctx, call)
	}
}

// healthy is the fault that is none.
func healthy(_ context.Context, call func()) error { call(); return nil }

// TestBudgetHolds: every caller is answered within the budget, whether the engine
// heeds its context or not, and sooner if the store answers sooner.
func TestBudgetHolds(t *testing.T) {
	for name, wrap := range map[string]func(weir.Engine) weir.Engine{
		"prompt": func(e weir.Engine) weir.Engine { return prompt{e} },
		"deaf":   func(e weir.Engine) weir.Engine { return e },
	} {
		for _, budget := range []time.Duration{50 * time.Millisecond, 7 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					faulty := weirtest.NewFaulty(weir.NewMemory())
					opts := []weir.FallbackOption{weir.Budget(budget)}
					if budget == 50*time.Millisecond {
						opts = nil // it is the default
					}
					limiter := must(weir.New(ten, weir.WithEngine(weir.Fallback(wrap(faulty), weir.FailClosed, opts...))))
					faulty.Break(weirtest.Slow(budget - 1))
					began := time.Now()
					if d, err := limiter.Allow(ctx, weir.K("42")); err != nil || !d.Allowed || time.Since(began) != budget-1 {
						t.Errorf("a store just fast enough: %+v, %v after %v", d, err, time.Since(began))
					}
					release := make(chan struct{})
					if name == "deaf" {
						faulty.Break(deaf(release, weirtest.Down()))
					} else {
						faulty.Break(weirtest.Silent())
					}
					for op, ask := range map[string]func() error{
						"allow":  func() error { _, err := limiter.Allow(ctx, weir.K("42")); return err },
						"refund": func() error { _, err := limiter.Refund(ctx, weir.K("42"), nine, 1); return err },
						"reset":  func() error { return limiter.Reset(ctx, weir.K("42")) },
					} {
						began = time.Now()
						if err := ask(); !errors.Is(err, weir.ErrUnknownFate) || errors.Is(err, weir.ErrUnavailable) || time.Since(began) != budget {
							t.Errorf("%s: %v after %v, want ErrUnknownFate after %v", op, err, time.Since(began), budget)
						} else if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), budget.String()) {
							t.Errorf("%s: %v; want it to name the budget and not to look like the caller's deadline", op, err)
						}
					}
					// What changes nothing is certain not to have been recorded.
					_, err := limiter.Peek(ctx, weir.K("42"), 1)
					_, err2 := limiter.Count(ctx, weir.K("42"), "user", time.Second)
					for _, err := range []error{err, err2} {
						if !errors.Is(err, weir.ErrUnavailable) || errors.Is(err, weir.ErrUnknownFate) {
							t.Errorf("peek or count: %v, want ErrUnavailable", err)
						}
					}
					close(release)
				})
			})
		}
	}
}

// TestBudgetIsNotTheCallers: an engine that tells what became of the call, and why,
// is believed, but for the end of a context that is not the caller's.
func TestBudgetIsNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, weir.FailClosed)
		for _, fate := range []error{weir.ErrUnknownFate, weir.ErrUnavailable} {
			cause := &net.AddrError{Err: "says the store", Addr: "somewhere"}
			s.Break(func(ctx context.Context, _ func()) error {
				<-ctx.Done()
				return fmt.Errorf("%w: %w: %w", fate, cause, ctx.Err())
			})
			_, err := s.Allow(ctx, weir.K("42"))
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%v: looks like the end of the caller's own context", err)
			}
			var found *net.AddrError
			if !errors.Is(err, fate) || !errors.Is(err, cause) || !errors.As(err, &found) || !strings.Contains(err.Error(), "budget of 50ms") {
				t.Errorf("got %v; want all the engine said, and the budget", err)
			}
			own, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			if _, err := s.Allow(own, weir.K("42")); err != context.DeadlineExceeded {
				t.Errorf("got %v, want the error of the caller's own context", err)
			}
			cancel()
		}
	})
}

// TestBudgetNone: without a budget the caller waits for the engine.
func TestBudgetNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, budget := range []time.Duration{0, -1} {
			s := newStore(t, ten, weir.FailOpen, weir.Budget(budget))
			s.Break(weirtest.Slow(time.Hour))
			began := time.Now()
			if d, err := s.Allow(ctx, weir.K("42")); err != nil || d.Degraded || time.Since(began) != time.Hour {
				t.Errorf("got %+v, %v after %v; want the store's answer after an hour", d, err, time.Since(began))
			}
		}
	})
}

// TestBudgetGoroutines: an engine that keeps its promise to end with its context
// is called by its caller, any other on a goroutine.
func TestBudgetGoroutines(t *testing.T) {
	for name, c := range map[string]struct {
		engine func(weir.Engine) weir.Engine
		opts   []weir.FallbackOption
		own    bool
	}{
		"prompt":           {engine: func(e weir.Engine) weir.Engine { return prompt{e} }, own: true},
		"no promise":       {engine: func(e weir.Engine) weir.Engine { return e }},
		"no budget":        {engine: func(e weir.Engine) weir.Engine { return e }, opts: []weir.FallbackOption{weir.Budget(0)}, own: true},
		"another fallback": {engine: func(e weir.Engine) weir.Engine { return weir.Fallback(prompt{e}, weir.FailClosed) }, own: true},
		"one that waits":   {engine: func(e weir.Engine) weir.Engine { return weir.Fallback(e, weir.FailClosed, weir.Budget(0)) }},
	} {
		faulty := weirtest.NewFaulty(weir.NewMemory())
		f := weir.Fallback(c.engine(faulty), weir.FailClosed, c.opts...)
		var on []byte
		faulty.Break(func(_ context.Context, call func()) error { on = goroutine(); call(); return nil })
		if _, err := must(weir.New(ten, weir.WithEngine(f))).Allow(ctx, weir.K("42")); err != nil {
			t.Fatal(err)
		}
		if own := bytes.Equal(on, goroutine()); own != c.own {
			t.Errorf("%s: called on the caller's goroutine: %t, want %t", name, own, c.own)
		}
	}
	deaf := weirtest.NewFaulty(weir.NewMemory())
	for _, c := range []struct {
		engine weir.Engine
		budget time.Duration
		ends   bool
	}{
		{deaf, time.Second, true},
		{deaf, 0, false},
		{prompt{deaf}, 0, true},
		{weir.NewMemory(), 0, true},
	} {
		if got := weir.Fallback(c.engine, weir.FailClosed, weir.Budget(c.budget)).EndsWithContext(); got != c.ends {
			t.Errorf("a fallback around %T within %v ends with its context: %t, want %t", c.engine, c.budget, got, c.ends)
		}
	}
}

// goroutine names the running goroutine.
func goroutine() []byte {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return b[:bytes.IndexByte(b, '[')]
}

// TestBudgetOverdue: calls that nobody waits for are bounded, are seen, and make
// room when they end.
func TestBudgetOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1024
		faulty := weirtest.NewFaulty(weir.NewMemory())
		f := weir.Fallback(faulty, weir.FailClosed, weir.OpenAfter(0))
		limiter := must(weir.New(ten, weir.WithEngine(f)))
		release := make(chan struct{})
		faulty.Break(deaf(release, healthy))
		var all sync.WaitGroup
		for range most {
			all.Go(func() { limiter.Allow(ctx, weir.K("42")) })
		}
		all.Wait()
		if got := f.Status(); got.Overdue != most || got.Failures != most || got.Timeouts != most || faulty.Asked() != most {
			t.Errorf("%+v, asked %d times; want %d overdue", got, faulty.Asked(), most)
		}
		began := time.Now()
		if _, err := limiter.Allow(ctx, weir.K("42")); !errors.Is(err, weir.ErrUnavailable) || time.Since(began) != 0 || faulty.Asked() != most {
			t.Errorf("one more: %v after %v, asked %d times; want it refused at once", err, time.Since(began), faulty.Asked())
		}
		close(release)
		synctest.Wait()
		if got := f.Status(); got.Overdue != 0 {
			t.Errorf("released: %+v; want none overdue", got)
		}
		if _, err := limiter.Allow(ctx, weir.K("new")); errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("after that: %v", err)
		}
	})
}

// TestBudgetLendsNothing: a call that nobody waits for any more writes no states
// and reads no key of its caller. The race detector looks on.
func TestBudgetLendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := weirtest.NewFaulty(weir.NewMemory())
		f := weir.Fallback(faulty, weir.FailOpen)
		plan := must(ten.Plan())
		states := make([]weir.LimitState, 2)
		ask := weir.Ask{N: 1, At: weir.Now, States: states}
		if _, err := f.Decide(ctx, plan, weir.K("42"), ask); err != nil || states[0].Used != 1 {
			t.Errorf("in time: %+v, %v; want the states", states, err)
		}
		release := make(chan struct{})
		faulty.Break(deaf(release, healthy))
		if d, err := f.Decide(ctx, plan, weir.K("42"), ask); err != nil || !d.Degraded {
			t.Fatal(d, err)
		}
		close(release)
		for i := range states {
			states[i] = weir.LimitState{Name: "mine"}
		}
		synctest.Wait()
		if states[0].Name != "mine" || states[1].Name != "mine" {
			t.Errorf("states after the caller had left: %+v", states)
		}
	})
}

// TestBudgetPanics: a panic of the engine is the caller's, as it was thrown, and
// a probe that panics makes room for the next.
func TestBudgetPanics(t *testing.T) {
	thrown := errors.New("thrown")
	for name, wrap := range map[string]func(weir.Engine) weir.Engine{
		"prompt":     func(e weir.Engine) weir.Engine { return prompt{e} },
		"goroutines": func(e weir.Engine) weir.Engine { return e },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faulty := weirtest.NewFaulty(weir.NewMemory())
				f := weir.Fallback(wrap(faulty), weir.FailOpen)
				limiter := must(weir.New(ten, weir.WithEngine(f)))
				faulty.Break(func(context.Context, func()) error { panic(thrown) })
				for range 10 {
					if got := caught(func() { limiter.Allow(ctx, weir.K("42")) }); got != thrown {
						t.Fatalf("caught %v, want what was thrown", got)
					}
				}
				if got := f.Status(); got.State != weir.StoreUp || got.Overdue != 0 {
					t.Errorf("%+v; want panics to hide behind no fallback", got)
				}
				faulty.Break(weirtest.Down())
				for range 5 {
					limiter.Allow(ctx, weir.K("42"))
				}
				faulty.Break(func(context.Context, func()) error { panic(thrown) })
				for range 3 {
					time.Sleep(time.Second)
					if got := caught(func() { limiter.Allow(ctx, weir.K("42")) }); got != thrown {
						t.Fatalf("a probe: caught %v, want what was thrown", got)
					}
				}
				faulty.Mend()
				time.Sleep(time.Second)
				if d, err := limiter.Allow(ctx, weir.K("42")); err != nil || d.Degraded {
					t.Errorf("mended: %+v, %v", d, err)
				}
			})
		})
	}
}

// TestBudgetGoexit: an engine that ends its goroutine ends its caller's.
func TestBudgetGoexit(t *testing.T) {
	faulty := weirtest.NewFaulty(weir.NewMemory())
	limiter := must(weir.New(ten, weir.WithEngine(weir.Fallback(faulty, weir.FailOpen, weir.Budget(time.Hour)))))
	faulty.Break(func(context.Context, func()) error { runtime.Goexit(); return nil })
	returned := false
	var all sync.WaitGroup
	all.Go(func() {
		limiter.Allow(ctx, weir.K("42"))
		returned = true
	})
	all.Wait()
	if returned {
		t.Error("the call returned")
	}
}

// TestForeignErrors: an error that does not say what became of the call is taken
// for the worse, unless the call would have changed nothing.
func TestForeignErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		theirs bool // it looks like the end of the caller's own context
	}{
		{net.ErrClosed, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, false},
		{context.DeadlineExceeded, true},
		{context.Canceled, true},
	} {
		s := newStore(t, ten, weir.FailClosed)
		s.Break(func(context.Context, func()) error { return c.err })
		_, wrote := s.Allow(ctx, weir.K("42"))
		_, read := s.Peek(ctx, weir.K("42"), 1)
		if !errors.Is(wrote, weir.ErrUnknownFate) || errors.Is(wrote, weir.ErrUnavailable) {
			t.Errorf("%v: allow got %v; want ErrUnknownFate", c.err, wrote)
		}
		if !errors.Is(read, weir.ErrUnavailable) || errors.Is(read, weir.ErrUnknownFate) {
			t.Errorf("%v: peek got %v; want ErrUnavailable", c.err, read)
		}
		for _, err := range []error{wrote, read} {
			if !strings.Contains(err.Error(), c.err.Error()) || errors.Is(err, c.err) == c.theirs {
				t.Errorf("%v: the cause in %v; want it wrapped unless it looks like the caller's own", c.err, err)
			}
		}
		s.fail(4)
		s.want(weir.StoreDown)
	}
}
