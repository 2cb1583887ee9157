package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirredis"
)

// cannedConn returns the same reply to every call, and counts the calls.
type cannedConn struct {
	mu    sync.Mutex
	reply string // guarded by mu: granting changes it during other calls
	calls int
	took  time.Duration
	lost  bool // every reply is lost
}

func (c *cannedConn) Eval(_ context.Context, s *weirredis.Script, _, _ []string) (string, error) {
	c.calls++
	time.Sleep(c.took)
	if c.lost {
		return "", io.ErrUnexpectedEOF
	}
	if s.Name == "reset" {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reply, nil
}

// denying returns a limiter on a connection that denies every call: the wait is 300 ms,
// and the denial is valid for 200 ms.
func denying(t *testing.T, mode weir.Mode, opts ...weirredis.Option) (*cannedConn, *weir.Limiter) {
	t.Helper()
	c := &cannedConn{reply: weirredis.Denial(nine, 300_000, 900_000, 200_000), took: 10 * time.Millisecond}
	return c, limiter(t, newEngine(t, c, opts...), "denied", mode, perUser(5, time.Second))
}

// unanswered returns a peek for another key. As the last call of a batch it gets an error,
// because the connection replies to one call.
func unanswered(l *weir.Limiter) weir.Call {
	return weir.Call{Limiter: l, Key: weir.K("w"), Request: weir.Request{Op: weir.OpPeek, N: 1}}
}

// granting runs do while the connection grants every call.
func (c *cannedConn) granting(do func() error) error {
	swap := func(reply string) (old string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		old, c.reply = c.reply, reply
		return old
	}
	denial := swap(weirredis.GrantOf(2, nine, 1))
	defer swap(denial)
	return do()
}

// TestCachedDenialsAge follows a denial through time. It is returned from the cache with
// shorter waits until it could change. The waits are counted from the reply, which took
// 10 ms, and the validity from the call.
func TestCachedDenialsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := denying(t, weir.AllOrNothing, weirredis.DenialCacheTTL(time.Second))
		start := time.Now()
		for _, step := range []struct {
			at     time.Duration // since the first call
			calls  int
			age    time.Duration // of the answer
			cached bool
		}{
			{0, 1, 0, false},
			{10 * time.Millisecond, 1, 0, true},
			{50 * time.Millisecond, 1, 40 * time.Millisecond, true},
			{200*time.Millisecond - time.Microsecond, 1, 190*time.Millisecond - time.Microsecond, true},
			{200 * time.Millisecond, 2, 0, false},
		} {
			time.Sleep(time.Until(start.Add(step.at)))
			d := must(t)(l.AllowN(ctx, weir.K("u"), 2))
			want := engine.Result{Limit: "user", At: time.UnixMicro(nine.Add(step.age).UnixMicro()),
				RetryAfter: 300*time.Millisecond - step.age, ResetAfter: 900*time.Millisecond - step.age, Cached: step.cached}
			if c.calls != step.calls || fields(d) != want {
				t.Errorf("after %v: got %+v after %d calls, want %+v after %d", step.at, d, c.calls, want, step.calls)
			}
		}
	})
}

// TestCachedDenialsEndAfterTheirTime: by default a denial is repeated for 100 ms from its
// call, though it would be valid for longer.
func TestCachedDenialsEndAfterTheirTime(t *testing.T) {
	for _, c := range []struct {
		opts []weirredis.Option
		ttl  time.Duration
	}{
		{nil, 100 * time.Millisecond},
		{[]weirredis.Option{weirredis.DenialCacheTTL(50 * time.Millisecond)}, 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, l := denying(t, weir.AllOrNothing, c.opts...)
			start := time.Now()
			must(t)(l.Allow(ctx, weir.K("u")))
			time.Sleep(time.Until(start.Add(c.ttl - time.Microsecond)))
			if d := must(t)(l.Allow(ctx, weir.K("u"))); !d.Cached || conn.calls != 1 {
				t.Errorf("a microsecond before %v: %+v after %d calls, want it from the cache", c.ttl, d, conn.calls)
			}
			time.Sleep(time.Microsecond)
			if d := must(t)(l.Allow(ctx, weir.K("u"))); d.Cached || conn.calls != 2 {
				t.Errorf("after %v: %+v after %d calls, want it from the server", c.ttl, d, conn.calls)
			}
		})
	}
}

// TestDenialsAreCachedUntilTheOldestEntryLeaves: the newest entry of the history
// leaves later, and then the history is empty.
func TestDenialsAreCachedUntilTheOldestEntryLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cannedConn{reply: weirredis.Denial(nine, 200_000, 900_000, 200_000)}
		l := limiter(t, newEngine(t, c, weirredis.DenialCacheTTL(time.Second)), "denied", weir.AllOrNothing, perUser(2, time.Second))
		want := engine.Result{Limit: "user", At: time.UnixMicro(nine.UnixMicro()), RetryAfter: 200 * time.Millisecond, ResetAfter: 900 * time.Millisecond}
		if d := must(t)(l.Allow(ctx, weir.K("u"))); fields(d) != want {
			t.Errorf("got %+v, want %+v", d, want)
		}
		for _, step := range []struct {
			sleep time.Duration
			calls int
		}{{200*time.Millisecond - time.Microsecond, 1}, {time.Microsecond, 2}} {
			time.Sleep(step.sleep)
			if must(t)(l.Allow(ctx, weir.K("u"))); c.calls != step.calls {
				t.Errorf("after %v more: %d calls, want %d", step.sleep, c.calls, step.calls)
			}
		}
	})
}

// TestWritesEndCachedDenials lists the operations and options that end a cached denial.
func TestWritesEndCachedDenials(t *testing.T) {
	again := func(l *weir.Limiter) error { _, err := l.Allow(ctx, weir.K("u")); return err }
	for _, c := range []struct {
		about  string
		opts   []weirredis.Option
		mode   weir.Mode
		do     func(c *cannedConn, l *weir.Limiter) error
		calls  int // of do
		recall bool
	}{
		{about: "nothing", do: func(*cannedConn, *weir.Limiter) error { return nil }, recall: true},
		{about: "a peek", do: func(_ *cannedConn, l *weir.Limiter) error { _, err := l.Peek(ctx, weir.K("u"), 1); return err }, calls: 1, recall: true},
		{about: "a count", do: func(_ *cannedConn, l *weir.Limiter) error {
			_, err := l.Count(ctx, weir.K("u"), "user", time.Second)
			return err
		}, calls: 1, recall: true},
		{about: "another user's denial", do: func(_ *cannedConn, l *weir.Limiter) error { _, err := l.Allow(ctx, weir.K("v")); return err }, calls: 1, recall: true},
		{about: "a refund", do: func(_ *cannedConn, l *weir.Limiter) error {
			_, err := l.Refund(ctx, weir.K("u"), nine, 1)
			return err
		}, calls: 1},
		{about: "a refund with an id", do: func(_ *cannedConn, l *weir.Limiter) error {
			_, err := l.Decide(ctx, weir.K("u"), weir.Request{Op: weir.OpRefund, From: nine, N: 1, ID: "id"})
			return err
		}, calls: 1},
		{about: "a refund without an answer", do: func(c *cannedConn, l *weir.Limiter) error {
			c.lost = true
			defer func() { c.lost = false }()
			if _, err := l.Refund(ctx, weir.K("u"), nine, 1); !errors.Is(err, weir.ErrOutcomeUnknown) {
				return fmt.Errorf("got %v, want ErrOutcomeUnknown", err)
			}
			return nil
		}, calls: 1},
		{about: "a refund to another user", do: func(_ *cannedConn, l *weir.Limiter) error {
			_, err := l.Refund(ctx, weir.K("v"), nine, 1)
			return err
		}, calls: 1, recall: true},
		{about: "a reset", do: func(_ *cannedConn, l *weir.Limiter) error { return l.Reset(ctx, weir.K("u")) }, calls: 1},
		{about: "a grant of fewer units", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.AllowN(ctx, weir.K("u"), 2); return err })
		}, calls: 1},
		{about: "a record", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.Record(ctx, weir.K("u"), 1); return err })
		}, calls: 1},
		{about: "a repeated record, whose first answer was lost", do: func(c *cannedConn, l *weir.Limiter) error {
			denial := c.reply
			c.reply = weirredis.Replay(nine)
			defer func() { c.reply = denial }()
			d, err := l.Decide(ctx, weir.K("u"), weir.Request{Op: weir.OpRecord, N: 1, ID: "id"})
			if err == nil && !d.Replayed {
				return fmt.Errorf("got %+v, want a replay", d)
			}
			return err
		}, calls: 1},
		{about: "another user's grant", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.Allow(ctx, weir.K("v")); return err })
		}, calls: 1, recall: true},
		{about: "its option", opts: []weirredis.Option{weirredis.DenialCacheTTL(0)}, do: func(*cannedConn, *weir.Limiter) error { return nil }},
		{about: "CountDenied", mode: weir.CountDenied, do: func(*cannedConn, *weir.Limiter) error { return nil }},
		{about: "its age", opts: []weirredis.Option{weirredis.DenialCacheTTL(50 * time.Millisecond)},
			do: func(*cannedConn, *weir.Limiter) error { time.Sleep(50 * time.Millisecond); return nil }},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, l := denying(t, c.mode, c.opts...)
			conn.took = 0
			if err := again(l); err != nil {
				t.Fatal(err)
			}
			if err := c.do(conn, l); err != nil {
				t.Fatal(err)
			}
			if err := again(l); err != nil {
				t.Fatal(err)
			}
			want := 1 + c.calls
			if !c.recall {
				want++
			}
			if conn.calls != want {
				t.Errorf("%s: %d calls, want %d", c.about, conn.calls, want)
			}
		})
	}
}

// TestWritesToSharedHistoriesEndCachedDenials lists operations of another user on a
// history of the denial (R8). Every write to the history ends the denial.
func TestWritesToSharedHistoriesEndCachedDenials(t *testing.T) {
	everybody := weir.Limit{Name: "all", Max: 9, Window: time.Second}
	v := weir.K("v")
	for _, c := range []struct {
		about  string
		mode   weir.Mode                                  // of the other user's limiter
		do     func(c *cannedConn, l *weir.Limiter) error // nil = a grant in a batch
		recall bool
	}{
		{about: "a grant in a call that several share"},
		{about: "a grant", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.Allow(ctx, v); return err })
		}},
		{about: "a grant at an instant of the caller", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.At(nine).Allow(ctx, v); return err })
		}},
		{about: "a grant with the state of the limits", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error {
				c.reply += strings.Repeat("\x00", 2*5*8) // the states
				_, err := l.Decide(ctx, v, weir.Request{N: 1, States: make([]weir.LimitState, 2)})
				return err
			})
		}},
		{about: "a grant with an id", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.AllowOnce(ctx, v, 1, "id"); return err })
		}},
		{about: "a grant whose answer is lost", do: func(c *cannedConn, l *weir.Limiter) error {
			denial := c.reply
			c.reply = ""
			_, err := l.Allow(ctx, v)
			if c.reply = denial; err == nil {
				return errors.New("no error")
			}
			return nil
		}},
		{about: "a record", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.Record(ctx, v, 1); return err })
		}},
		{about: "a denial that counts", mode: weir.CountDenied, do: func(c *cannedConn, l *weir.Limiter) error { _, err := l.Allow(ctx, v); return err }},
		{about: "a refund", do: func(_ *cannedConn, l *weir.Limiter) error { _, err := l.Refund(ctx, v, nine, 1); return err }},
		{about: "a reset", do: func(_ *cannedConn, l *weir.Limiter) error { return l.Reset(ctx, v) }},
		{about: "a denial", do: func(_ *cannedConn, l *weir.Limiter) error { _, err := l.Allow(ctx, v); return err }, recall: true},
		{about: "a peek that may be granted", do: func(c *cannedConn, l *weir.Limiter) error {
			return c.granting(func() error { _, err := l.Peek(ctx, v, 1); return err })
		}, recall: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := &cannedConn{reply: weirredis.Denial(nine, 300_000, 900_000, 200_000)}
			e := newEngine(t, conn)
			l := limiter(t, e, "shared", weir.AllOrNothing, everybody, perUser(5, time.Second))
			must(t)(l.Allow(ctx, weir.K("u")))
			other := limiter(t, e, "shared", c.mode, everybody, perUser(5, time.Second))
			if c.do == nil {
				c.do = func(conn *cannedConn, l *weir.Limiter) error {
					return conn.granting(func() error {
						calls := []engine.Call{{Rules: l.Compiled(), Key: v, N: 1}}
						e.DecideBatch(ctx, calls)
						return calls[0].Err
					})
				}
			}
			if err := c.do(conn, other); err != nil {
				t.Fatal(c.about, err)
			}
			before := conn.calls
			must(t)(l.Allow(ctx, weir.K("u")))
			if recall := conn.calls == before; recall != c.recall {
				t.Errorf("%s of another user: answered from the cache: %v, want %v", c.about, recall, c.recall)
			}
		})
	}
}

// TestCachedDenialsAreOfOneRequest: a request with another limit, number of units or
// clock is not answered with the cached denial.
func TestCachedDenialsAreOfOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cannedConn{reply: weirredis.Denial(nine, 300_000, 900_000, 200_000)}
		e := newEngine(t, c)
		l := limiter(t, e, "numbers", weir.AllOrNothing, perUser(5, time.Second))
		raised := limiter(t, e, "numbers", weir.AllOrNothing, perUser(6, time.Second))
		must(t)(l.Allow(ctx, weir.K("u")))
		must(t)(raised.Allow(ctx, weir.K("u")))
		must(t)(raised.AllowN(ctx, weir.K("u"), 2))
		must(t)(l.At(nine).Allow(ctx, weir.K("u"))) // the caller's clock
		if c.calls != 4 {
			t.Errorf("%d calls, want 4", c.calls)
		}
	})
}

// TestOtherRequestsAreNeverCached lists requests that are sent to the server though the same
// attempt has a cached denial, and whose answers end no cached denial and are not cached.
func TestOtherRequestsAreNeverCached(t *testing.T) {
	u, reply := weir.K("u"), weirredis.Denial(nine, 300_000, 900_000, 200_000)
	for about, request := range map[string]weir.Request{
		"a peek":                    {Op: weir.OpPeek, N: 2},
		"an attempt of nothing":     {},
		"an attempt with an id":     {N: 2, ID: "id"},
		"an attempt with states":    {N: 2, States: make([]weir.LimitState, 1)},
		"an attempt at an instant":  {N: 2, At: nine},
		"an attempt of fewer units": {N: 1},
	} {
		for _, batch := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := &cannedConn{reply: reply}
				l := limiter(t, newEngine(t, c), "others", weir.AllOrNothing, perUser(5, time.Second))
				must(t)(l.AllowN(ctx, u, 2))
				c.reply += strings.Repeat("\x00", len(request.States)*5*8)
				calls, want := []weir.Call{{Limiter: l, Key: u, Request: request}}, 2
				if batch {
					calls = append(calls, unanswered(l))
				}
				weir.DecideAll(ctx, calls)
				if calls[0].Err != nil || calls[0].Decision.Cached || c.calls != want {
					t.Errorf("%s, in a batch: %v: got %+v, %v after %d calls; want it from the server", about, batch, calls[0].Decision, calls[0].Err, c.calls)
				}
				cached := about != "an attempt of fewer units" // its denial takes the place of the first
				if d := must(t)(l.AllowN(ctx, u, 2)); d.Cached != cached {
					t.Errorf("%s, in a batch: %v: the same attempt after it: %+v, want cached: %v", about, batch, d, cached)
				}
			})
		}
	}
}

// TestCachedDenialsByMode: a denial of Partial is cached like one of AllOrNothing, and a grant
// of a part is not. A cached denial does not deny fewer units that fit. In CountDenied no
// denial is cached.
func TestCachedDenialsByMode(t *testing.T) {
	type attempt struct {
		n, granted int64
		cached     bool
	}
	for mode, attempts := range map[weir.Mode][]attempt{
		weir.AllOrNothing: {{2, 2, false}, {2, 0, false}, {2, 0, true}, {1, 1, false}, {2, 0, false}, {2, 0, true}},
		weir.Partial:      {{2, 2, false}, {2, 1, false}, {2, 0, false}, {2, 0, true}, {1, 0, false}},
		weir.CountDenied:  {{2, 2, false}, {2, 0, false}, {2, 0, false}},
	} {
		e := newEngine(t, redisConn(t))
		e.WithClock(func() time.Time { return nine })
		l := limiter(t, e, fmt.Sprint("modes", time.Now().UnixNano()), mode, perUser(3, time.Hour))
		for i, a := range attempts {
			if d := must(t)(l.AllowN(ctx, weir.K("u"), a.n)); d.Granted != a.granted || d.Cached != a.cached {
				t.Errorf("%v: attempt %d of %d units: %+v, want %d, cached: %v", mode, i, a.n, d, a.granted, a.cached)
			}
		}
	}
}

// TestCachedDenialsOfManyKeys: with more users than the table of latest denials holds,
// each gets his own denial again, even if the memory of his name is reused.
func TestCachedDenialsOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 3000
		c := &cannedConn{}
		e := newEngine(t, c)
		l := limiter(t, e, "many", weir.AllOrNothing, weir.Limit{Name: "pair", Max: 5, Window: time.Second, By: []string{"user", "device"}})
		buffer := []byte("user0000")
		ask := func(i int) weir.Decision {
			copy(buffer[4:], fmt.Sprintf("%04d", i/2))
			return must(t)(l.Allow(ctx, weir.K(unsafe.String(&buffer[0], len(buffer)), fmt.Sprint(i%2))))
		}
		for i := range users {
			c.reply = weirredis.Denial(nine.Add(time.Duration(i)*time.Second), 300_000, 900_000, 200_000)
			ask(i)
		}
		for i := range users {
			if d, want := ask(i), nine.Add(time.Duration(i)*time.Second); !d.At.Equal(want) {
				t.Fatalf("user %d: got the denial of %v, want that of %v", i, d.At, want)
			}
		}
		if c.calls != users {
			t.Errorf("%d calls, want %d", c.calls, users)
		}
	})
}

// TestDenialDuringWriteIsNotCached: a denial is not cached if a refund, a reset or a record
// ran between its call and its reply, in whichever way it was sent.
func TestDenialDuringWriteIsNotCached(t *testing.T) {
	u := weir.K("u")
	attempts := map[string]func(*weir.Limiter) error{
		"by Decide": func(l *weir.Limiter) error { _, err := l.Allow(ctx, u); return err },
		"by DecideAll": func(l *weir.Limiter) error {
			calls := []weir.Call{{Limiter: l, Key: u, Request: weir.Request{N: 1}}, unanswered(l)}
			weir.DecideAll(ctx, calls)
			return calls[0].Err
		},
	}
	writes := map[string]func(*cannedConn, *weir.Limiter, *weir.Reservation) error{
		"a refund": func(_ *cannedConn, l *weir.Limiter, _ *weir.Reservation) error {
			_, err := l.Refund(ctx, u, nine, 1)
			return err
		},
		"a refund with an id": func(_ *cannedConn, l *weir.Limiter, _ *weir.Reservation) error {
			_, err := l.Decide(ctx, u, weir.Request{Op: weir.OpRefund, From: nine, N: 1, ID: "id"})
			return err
		},
		"a reset":                 func(_ *cannedConn, l *weir.Limiter, _ *weir.Reservation) error { return l.Reset(ctx, u) },
		"a cancelled reservation": func(_ *cannedConn, _ *weir.Limiter, r *weir.Reservation) error { return r.Cancel(ctx) },
		"a smaller settlement":    func(_ *cannedConn, _ *weir.Limiter, r *weir.Reservation) error { return r.Commit(ctx, 1) },
		"a record": func(c *cannedConn, l *weir.Limiter, _ *weir.Reservation) error {
			return c.granting(func() error { _, err := l.Record(ctx, u, 1); return err })
		},
	}
	for _, options := range [][]weirredis.Option{nil, {weirredis.DisableBatching()}} {
		for how, attempt := range attempts {
			for about, write := range writes {
				synctest.Test(t, func(t *testing.T) {
					c, l := denying(t, weir.AllOrNothing, options...)
					var r *weir.Reservation
					if err := c.granting(func() (err error) { r, _, err = l.Reserve(ctx, u, weir.Request{N: 2}); return err }); err != nil {
						t.Fatal(err)
					}
					done := make(chan error)
					go func() { done <- attempt(l) }()
					synctest.Wait()
					c.took = 0
					if err := write(c, l, r); err != nil {
						t.Fatal(about, err)
					}
					if err := <-done; err != nil {
						t.Fatal(err)
					}
					before := c.calls
					if d := must(t)(l.Allow(ctx, u)); d.Cached || c.calls != before+1 {
						t.Errorf("a denial %s during %s, %d options: repeated as %+v", how, about, len(options), d)
					}
				})
			}
		}
	}
}

// TestSettlementsEndCachedDenials: units that a reservation gives back are there immediately,
// also under a policy whose limits are settled in two steps because one counts holds.
func TestSettlementsEndCachedDenials(t *testing.T) {
	rate, hold := perUser(2, time.Hour), weir.Limit{Name: "running", Kind: weir.Concurrency, Max: 9, MaxHold: time.Hour, By: []string{"user"}}
	for _, limits := range [][]weir.Limit{{rate}, {rate, hold}} {
		for about, settle := range map[string]func(*weir.Reservation) error{
			"a cancelled one":      func(r *weir.Reservation) error { return r.Cancel(ctx) },
			"a smaller settlement": func(r *weir.Reservation) error { return r.Commit(ctx, 1) },
		} {
			e := newEngine(t, redisConn(t))
			e.WithClock(func() time.Time { return nine })
			l := limiter(t, e, fmt.Sprint("settled", time.Now().UnixNano()), weir.AllOrNothing, limits...)
			r, _, err := l.Reserve(ctx, weir.K("u"), weir.Request{N: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, cached := range []bool{false, true} {
				if d := must(t)(l.Allow(ctx, weir.K("u"))); d.Allowed || d.Cached != cached {
					t.Errorf("%s, %d limits: got %+v, want a denial, cached: %v", about, len(limits), d, cached)
				}
			}
			if err := settle(r); err != nil {
				t.Fatal(err)
			}
			if d := must(t)(l.Allow(ctx, weir.K("u"))); !d.Allowed {
				t.Errorf("%s, %d limits: got %+v after it, want a grant", about, len(limits), d)
			}
		}
	}
}

// TestWritesThroughWrappersEndCachedDenials: a refund or a reset through package fallback or package
// enforce ends the cached denials of the engine behind it.
func TestWritesThroughWrappersEndCachedDenials(t *testing.T) {
	file, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  denied:\n    limit: 5 per second per user\n"))
	if err != nil {
		t.Fatal(err)
	}
	values := enforce.Values{"user": "u"}
	for about, write := range map[string]func(*enforce.Set) error{
		"a refund": func(s *enforce.Set) error { _, err := s.Refund(ctx, "denied", values, nine, 1); return err },
		"a reset":  func(s *enforce.Set) error { return s.Reset(ctx, "denied", values) },
	} {
		for _, mode := range []engine.Outage{fallback.Deny, fallback.Allow, fallback.Share} {
			synctest.Test(t, func(t *testing.T) {
				c := &cannedConn{reply: weirredis.Denial(nine, 300_000, 900_000, 200_000)}
				set, err := enforce.New(file, fallback.New(newEngine(t, c), mode))
				if err != nil {
					t.Fatal(err)
				}
				check := func(wantCached bool) {
					t.Helper()
					o, err := set.Check(ctx, "denied", values, 1)
					if err != nil || o.Decision.Allowed || o.Decision.Cached != wantCached {
						t.Errorf("%s, %v: got %+v, %v; want a denial, cached: %v", about, mode, o.Decision, err, wantCached)
					}
				}
				check(false)
				check(true)
				if err := write(set); err != nil {
					t.Fatal(err)
				}
				check(false)
			})
		}
	}
}

// TestCachedDenialsAreBounded denies more users than the cache holds.
func TestCachedDenialsAreBounded(t *testing.T) {
	c := &cannedConn{reply: weirredis.Denial(nine, 300_000_000, 900_000_000, 200_000_000)}
	e := newEngine(t, c, weirredis.DenialCacheTTL(time.Hour))
	l := limiter(t, e, "bounded", weir.AllOrNothing, perUser(5, time.Second))
	for i := range 70_000 {
		must(t)(l.Allow(ctx, weir.K(fmt.Sprint(i))))
	}
	if n := e.Cached(); n > 1<<16 || n < 1<<15 {
		t.Errorf("%d denials are cached, want at most %d", n, 1<<16)
	}
}

// TestCachedDenialsEqualNewOnes compares each cached denial with a decision on Redis at the
// same instant: all fields are equal (R8), also after other keys of the engine wrote to
// shared histories.
func TestCachedDenialsEqualNewOnes(t *testing.T) {
	conn := &countingConn{Conn: redisConn(t)}
	e := newEngine(t, conn)
	remembered := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		p := weir.Policy{Name: fmt.Sprint("true-", time.Now().UnixNano()), Mode: weir.Mode(r.IntN(2))}
		by := [][]string{{"user"}, nil, {"user"}}
		for i := range 1 + r.IntN(3) {
			limit := weir.Limit{Name: fmt.Sprint("l", i), Max: 1 + r.Int64N(9), Window: time.Duration(5+r.IntN(40)) * time.Millisecond, By: by[i]}
			if r.IntN(2) == 0 {
				limit.MinInterval = time.Duration(r.IntN(4000)) * time.Microsecond
			}
			p.Limits = append(p.Limits, limit)
		}
		l, err := weir.New(p, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		grants := []time.Time{nine}
		for range 300 {
			k, n := weir.K([]string{"a", "b", "c"}[r.IntN(3)]), 1+r.Int64N(4)
			switch r.IntN(40) {
			case 0:
				must(t)(l.Record(ctx, k, n))
			case 1:
				if _, err := l.Refund(ctx, k, grants[r.IntN(len(grants))], n); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := l.Reset(ctx, k); err != nil {
					t.Fatal(err)
				}
			}
			before := conn.calls
			d := must(t)(l.AllowN(ctx, k, n))
			if d.Granted > 0 {
				grants = append(grants[max(0, len(grants)-3):], d.At)
			}
			if conn.calls != before {
				continue
			}
			remembered++
			want := must(t)(l.At(d.At).Peek(ctx, k, n))
			want.Cached = true
			if d.Allowed || d != want {
				t.Fatalf("seed %d: from the cache %+v, from Redis %+v\n%+v", seed, d, want, p)
			}
		}
	}
	if remembered < 200 {
		t.Errorf("only %d denials came from the cache", remembered)
	}
	t.Logf("%d denials came from the cache", remembered)
}

// countingConn counts the calls of one goroutine.
type countingConn struct {
	weirredis.Conn
	calls int
}

func (c *countingConn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	c.calls++
	return c.Conn.Eval(ctx, s, keys, args)
}
