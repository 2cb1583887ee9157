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
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
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
	lost := c.lost // as at the call: the next call may change it meanwhile
	time.Sleep(c.took)
	if lost {
		return "", io.ErrUnexpectedEOF
	}
	if s.Name == "reset" {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reply, nil
}

// denial is the reply of a script that denies: the wait is 300 ms, and the denial is valid for
// 200 ms.
var denial = weirredis.Denial(nine, 300_000, 900_000, 200_000)

// denying returns a limiter on a connection that denies every call, after 10 ms.
func denying(t *testing.T, mode weir.Mode, opts ...weirredis.Option) (*cannedConn, *weir.Limiter) {
	t.Helper()
	c := &cannedConn{reply: denial, took: 10 * time.Millisecond}
	return c, limiter(t, newEngine(t, c, opts...), "denied", mode, perUser(5, time.Second))
}

// unanswered returns a peek for another key. As the last call of a batch it gets an error,
// because the connection replies to one call.
func unanswered(l *weir.Limiter) weir.Call {
	return weir.Call{Limiter: l, Key: weir.K("w"), Op: engine.Peek, Request: weir.Request{N: 1}}
}

// replying runs do while the connection has another reply to every call.
func (c *cannedConn) replying(reply string, do func() error) error {
	swap := func(reply string) (old string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		old, c.reply = c.reply, reply
		return old
	}
	before := swap(reply)
	defer swap(before)
	return do()
}

// granting runs do while the connection grants every call.
func (c *cannedConn) granting(do func() error) error {
	return c.replying(weirredis.GrantOf(2, nine, 1), do)
}

// TestCachedDenialsAge follows a denial through time. It is returned from the cache with
// shorter waits until it could change, or until its time has passed: by default 100 ms. Waits
// are counted from the reply, which took 10 ms. The time is counted from the call.
func TestCachedDenialsAge(t *testing.T) {
	for _, c := range []struct {
		opts []weirredis.Option
		ends time.Duration
	}{
		{[]weirredis.Option{weirredis.DenialCacheTTL(time.Second)}, 200 * time.Millisecond},
		{nil, 100 * time.Millisecond},
		{[]weirredis.Option{weirredis.DenialCacheTTL(50 * time.Millisecond)}, 50 * time.Millisecond},
		{[]weirredis.Option{weirredis.DenialCacheTTL(0)}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, l := denying(t, weir.AllOrNothing, c.opts...)
			start := time.Now()
			for i, at := range []time.Duration{0, 10 * time.Millisecond, 40 * time.Millisecond, c.ends - time.Microsecond, c.ends} {
				cached := i > 0 && at < c.ends
				if at < 0 {
					continue
				}
				time.Sleep(time.Until(start.Add(at)))
				before := conn.calls
				d := mustAllowN(t, l, weir.K("u"), 2)
				want := engine.Result{Limit: "user", At: time.UnixMicro(nine.UnixMicro()), RetryAfter: 300 * time.Millisecond, ResetAfter: 900 * time.Millisecond, Cached: cached}
				if age := at - 10*time.Millisecond; cached {
					want.At, want.RetryAfter, want.ResetAfter = want.At.Add(age), want.RetryAfter-age, want.ResetAfter-age
				}
				if fields(d) != want || (conn.calls == before) != cached {
					t.Errorf("a denial for %v, after %v: got %+v after %d calls, want %+v", c.ends, at, d, conn.calls-before, want)
				}
			}
		})
	}
}

// TestDenialsAreCachedUntilAUnitLeaves: a denial on the server is repeated until the first unit
// of any of its limits leaves, on the short path of the script and on the long one.
func TestDenialsAreCachedUntilAUnitLeaves(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(24*time.Hour))
	now := nine
	e.WithClock(func() time.Time { return now })
	day := weir.Limit{Name: "day", Max: 1, Window: 24 * time.Hour, By: []string{"user"}}
	apart := day
	apart.MinInterval = day.Window
	for _, limits := range [][]weir.Limit{{perUser(1, time.Hour)}, {perUser(5, time.Hour), day}, {day, perUser(5, time.Hour)}, {perUser(5, time.Hour), apart}, {bucket(1, time.Hour, 1), day}} {
		l := limiter(t, e, fmt.Sprint("until", time.Now().UnixNano()), weir.AllOrNothing, limits...)
		for i, step := range []struct {
			later           time.Duration
			allowed, cached bool
		}{{0, true, false}, {0, false, false}, {59 * time.Minute, false, true}, {2 * time.Minute, false, false}} {
			now = now.Add(step.later)
			if d := mustAllow(t, l, weir.K("u")); d.Allowed != step.allowed || d.Cached != step.cached {
				t.Errorf("%+v, attempt %d: got %+v, want it allowed: %v, cached: %v", limits, i, d, step.allowed, step.cached)
			}
		}
	}
}

// write is a call that may end the cached denials of a key. r is a reservation of the key.
type write struct {
	about string
	do    func(c *cannedConn, l *weir.Limiter, k weir.Key, r *weir.Reservation) error
	keeps bool // the denials stay
}

func writes() []write {
	granted := func(do func(l *weir.Limiter, k weir.Key) error) func(*cannedConn, *weir.Limiter, weir.Key, *weir.Reservation) error {
		return func(c *cannedConn, l *weir.Limiter, k weir.Key, _ *weir.Reservation) error {
			return c.granting(func() error { return do(l, k) })
		}
	}
	denied := func(do func(l *weir.Limiter, k weir.Key) error) func(*cannedConn, *weir.Limiter, weir.Key, *weir.Reservation) error {
		return func(_ *cannedConn, l *weir.Limiter, k weir.Key, _ *weir.Reservation) error { return do(l, k) }
	}
	settled := func(do func(r *weir.Reservation) error) func(*cannedConn, *weir.Limiter, weir.Key, *weir.Reservation) error {
		return func(c *cannedConn, _ *weir.Limiter, _ weir.Key, r *weir.Reservation) error {
			return c.replying(weirredis.ReservationOf(2, nine, 1), func() error { return do(r) })
		}
	}
	call := func(op engine.Op, r weir.Request) func(l *weir.Limiter, k weir.Key) error {
		return func(l *weir.Limiter, k weir.Key) error {
			c := weir.Call{Limiter: l, Key: k, Op: op, Request: r}
			if op == engine.Refund {
				c.From = nine
			}
			_, err := c.Do(ctx)
			return err
		}
	}
	decide := func(r weir.Request) func(l *weir.Limiter, k weir.Key) error { return call(engine.Attempt, r) }
	unknown := func(err error) error {
		if !errors.Is(err, weir.ErrOutcomeUnknown) {
			return fmt.Errorf("got %v, want ErrOutcomeUnknown", err)
		}
		return nil
	}
	return []write{
		{"nothing", denied(func(*weir.Limiter, weir.Key) error { return nil }), true},
		{"a peek", denied(call(engine.Peek, weir.Request{N: 1})), true},
		{"a peek that may be granted", granted(call(engine.Peek, weir.Request{N: 1})), true},
		{"a count", denied(func(l *weir.Limiter, k weir.Key) error { _, err := l.Count(ctx, k, "user", time.Second); return err }), true},
		{"a refund", denied(call(engine.Refund, weir.Request{N: 1})), false},
		{"a refund with an id", denied(call(engine.Refund, weir.Request{N: 1, ID: "id"})), false},
		{"a refund without an answer", func(c *cannedConn, l *weir.Limiter, k weir.Key, _ *weir.Reservation) error {
			c.lost = true
			defer func() { c.lost = false }()
			_, err := l.Refund(ctx, k, nine, 1)
			return unknown(err)
		}, false},
		{"a reset", denied(func(l *weir.Limiter, k weir.Key) error {
			_, err := l.Reset(ctx, k, l.Compiled().LimitNames()...)
			return err
		}), false},
		{"a cancelled reservation", settled(func(r *weir.Reservation) error { return r.Cancel(ctx) }), false},
		{"a smaller settlement", settled(func(r *weir.Reservation) error { return r.Commit(ctx, 1) }), false},
		{"a grant", granted(decide(weir.Request{N: 2})), false},
		{"a grant at an instant of the caller", granted(decide(weir.Request{N: 2, At: nine})), false},
		{"a grant with an id", granted(decide(weir.Request{N: 2, ID: "id"})), false},
		{"a grant with the state of the limits", func(c *cannedConn, l *weir.Limiter, k weir.Key, _ *weir.Reservation) error {
			n := len(l.Compiled().Limits)
			return c.replying(weirredis.GrantOf(2, nine, 1)+strings.Repeat("\x00", n*8*8), func() error {
				return decide(weir.Request{N: 2, States: make([]weir.LimitState, n)})(l, k)
			})
		}, false},
		{"a grant whose answer is lost", func(c *cannedConn, l *weir.Limiter, k weir.Key, _ *weir.Reservation) error {
			return c.replying("", func() error { return unknown(decide(weir.Request{N: 2})(l, k)) })
		}, false},
		{"a grant in a call that several share", granted(func(l *weir.Limiter, k weir.Key) error {
			calls := []weir.Call{{Limiter: l, Key: k, Request: weir.Request{N: 2}}, unanswered(l)}
			weir.DecideAll(ctx, calls)
			return calls[0].Err
		}), false},
		{"a record", granted(call(engine.Record, weir.Request{N: 1})), false},
		{"a repeated record, whose first answer was lost", func(c *cannedConn, l *weir.Limiter, k weir.Key, _ *weir.Reservation) error {
			return c.replying(weirredis.Replay(nine), func() error {
				d, err := (&weir.Call{Limiter: l, Key: k, Op: engine.Record, Request: weir.Request{N: 1, ID: "id"}}).Do(ctx)
				if err == nil && !d.Replayed {
					return fmt.Errorf("got %+v, want a replay", d)
				}
				return err
			})
		}, false},
	}
}

// TestWritesEndCachedDenials makes calls of the same user and of another one. Every write to a
// history of the denial ends it (R8), and no other call does.
func TestWritesEndCachedDenials(t *testing.T) {
	everybody := weir.Limit{Name: "all", Max: 9, Window: time.Second}
	running := weir.Limit{Name: "running", Kind: weir.KindConcurrency, Max: 9, MaxHold: time.Hour, By: []string{"user"}}
	for about, c := range map[string]struct {
		user   string
		limits []weir.Limit
		keeps  bool
	}{
		"of the user":                          {"u", []weir.Limit{perUser(5, time.Second)}, false},
		"of the user, with a hold":             {"u", []weir.Limit{perUser(5, time.Second), running}, false},
		"of another user":                      {"v", []weir.Limit{perUser(5, time.Second)}, true},
		"of another user, in a shared history": {"v", []weir.Limit{everybody, perUser(5, time.Second)}, false},
	} {
		for _, w := range writes() {
			synctest.Test(t, func(t *testing.T) {
				conn := &cannedConn{reply: denial}
				l := limiter(t, newEngine(t, conn), "denied", weir.AllOrNothing, c.limits...)
				r := reserve(t, conn, l, c.user)
				mustAllow(t, l, weir.K("u"))
				if err := w.do(conn, l, weir.K(c.user), r); err != nil {
					t.Fatal(w.about, err)
				}
				assert.Equal(t, mustAllow(t, l, weir.K("u")).Cached, c.keeps || w.keeps, "%s %s: cached then", w.about, about)
			})
		}
	}
}

// reserve returns a reservation of 2 units.
func reserve(t *testing.T, c *cannedConn, l *weir.Limiter, user string) (r *weir.Reservation) {
	t.Helper()
	must.Do(t, c.replying(weirredis.ReservationOf(2, nine, 1), func() (err error) {
		r, _, err = l.Reserve(ctx, weir.K(user), weir.Request{N: 2})
		return err
	}))
	return r
}

// TestCountedDenialsEndCachedDenials: a denial that counts is a write, too, and is never cached.
func TestCountedDenialsEndCachedDenials(t *testing.T) {
	everybody := weir.Limit{Name: "all", Max: 9, Window: time.Second}
	e := newEngine(t, &cannedConn{reply: denial}, weirredis.DenialCacheTTL(time.Hour))
	l := limiter(t, e, "shared", weir.AllOrNothing, everybody, perUser(5, time.Second))
	for _, c := range []struct {
		mode   weir.Mode
		cached bool
	}{{weir.AllOrNothing, true}, {weir.CountDenied, false}} {
		mustAllow(t, l, weir.K("u"))
		mustAllow(t, limiter(t, e, "shared", c.mode, everybody, perUser(5, time.Second)), weir.K("v"))
		assert.Equal(t, mustAllow(t, l, weir.K("u")).Cached, c.cached, "cached after a denial of another user, %v", c.mode)
	}
	conn, counting := denying(t, weir.CountDenied)
	for range 2 {
		mustAllow(t, counting, weir.K("u"))
	}
	assert.Equal(t, conn.calls, 2, "calls of two denials that count")
}

// TestOtherRequestsAreNeverCached lists requests that are sent to the server though the same
// attempt has a cached denial. Their answers end no cached denial and are not cached.
func TestOtherRequestsAreNeverCached(t *testing.T) {
	const peek = "a peek"
	u := weir.K("u")
	for about, request := range map[string]weir.Request{
		peek:                        {N: 2},
		"an attempt with an id":     {N: 2, ID: "id"},
		"an attempt with states":    {N: 2, States: make([]weir.LimitState, 1)},
		"an attempt at an instant":  {N: 2, At: nine},
		"an attempt of fewer units": {N: 1},
		"an attempt of other rules": {N: 2},
	} {
		for _, batch := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := &cannedConn{reply: denial}
				e := newEngine(t, c)
				l := limiter(t, e, "others", weir.AllOrNothing, perUser(5, time.Second))
				mustAllowN(t, l, u, 2)
				asked := l
				if about == "an attempt of other rules" { // the same history, other numbers
					asked = limiter(t, e, "others", weir.AllOrNothing, perUser(6, time.Second))
				}
				c.reply += strings.Repeat("\x00", len(request.States)*8*8)
				calls, want := []weir.Call{{Limiter: asked, Key: u, Request: request}}, 2
				if about == peek {
					calls[0].Op = engine.Peek
				}
				if batch {
					calls = append(calls, unanswered(l))
				}
				weir.DecideAll(ctx, calls)
				if calls[0].Err != nil || calls[0].Decision.Cached || c.calls != want {
					t.Errorf("%s, in a batch: %v: got %+v, %v after %d calls; want it from the server", about, batch, calls[0].Decision, calls[0].Err, c.calls)
				}
				cached := about != "an attempt of fewer units" // its denial takes the place of the first
				if d := mustAllowN(t, l, u, 2); d.Cached != cached && asked == l {
					t.Errorf("%s, in a batch: %v: the same attempt after it: %+v, want cached: %v", about, batch, d, cached)
				}
			})
		}
	}
}

// TestCachedDenialsOfManyKeys: with more users than the table of latest denials holds, each
// user's own denial is repeated, even if the memory of the name is reused.
func TestCachedDenialsOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 3000
		c := &cannedConn{}
		e := newEngine(t, c)
		l := limiter(t, e, "many", weir.AllOrNothing, weir.Limit{Name: "pair", Max: 5, Window: time.Second, By: []string{"user", "device"}})
		buffer := []byte("user0000")
		ask := func(i int) weir.Decision {
			copy(buffer[4:], fmt.Sprintf("%04d", i/2))
			return mustAllow(t, l, weir.K(unsafe.String(&buffer[0], len(buffer)), fmt.Sprint(i%2)))
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
		assert.Equal(t, c.calls, users, "calls")
	})
}

// TestDenialDuringWriteIsNotCached: a denial is not cached if a write ran between its call and
// its reply, for each way in which the denied attempt was sent.
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
	for _, options := range [][]weirredis.Option{nil, {weirredis.DisableBatching()}} {
		for how, attempt := range attempts {
			for _, w := range writes() {
				synctest.Test(t, func(t *testing.T) {
					c, l := denying(t, weir.AllOrNothing, options...)
					r := reserve(t, c, l, "u")
					done := make(chan error)
					go func() { done <- attempt(l) }()
					synctest.Wait()
					c.took = 0
					if err := w.do(c, l, u, r); err != nil {
						t.Fatal(w.about, err)
					}
					must.Do(t, <-done)
					assert.Equal(t, mustAllow(t, l, u).Cached, w.keeps, "a denial %s during %s, %d options: cached", how, w.about, len(options))
				})
			}
		}
	}
}

// TestCachedDenialsAreBounded denies more users than the cache holds.
func TestCachedDenialsAreBounded(t *testing.T) {
	c := &cannedConn{reply: weirredis.Denial(nine, 300_000_000, 900_000_000, 200_000_000)}
	e := newEngine(t, c, weirredis.DenialCacheTTL(time.Hour))
	l := limiter(t, e, "bounded", weir.AllOrNothing, perUser(5, time.Second))
	for i := range 70_000 {
		mustAllow(t, l, weir.K(fmt.Sprint(i)))
	}
	if n := e.Cached(); n > 1<<16 || n < 1<<15 {
		t.Errorf("%d denials are cached, want at most %d", n, 1<<16)
	}
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

// TestCachedDenialsEqualNewOnes compares each cached denial of both modes that cache them with a
// decision on Redis at the same instant: all fields are equal (R8), also after other keys of the
// engine wrote to shared histories. So no grant of a part is cached, and no denial answers for
// fewer units that fit.
func TestCachedDenialsEqualNewOnes(t *testing.T) {
	conn := &countingConn{Conn: redisConn(t)}
	e := newEngine(t, conn)
	remembered := map[weir.Mode]int{}
	few := func() bool { return min(remembered[weir.AllOrNothing], remembered[weir.Partial]) < 100 }
	for seed := uint64(0); seed < 40 || few() && seed < 120; seed++ { // on a slow machine most windows end between calls
		r := rand.New(rand.NewPCG(seed, 5))
		p := weir.Policy{Name: fmt.Sprint("true-", time.Now().UnixNano()), Mode: weir.Mode(r.IntN(2))}
		by := [][]string{{"user"}, nil, {"user"}}
		for i := range 1 + r.IntN(3) {
			limit := weir.Limit{Name: fmt.Sprint("l", i), Max: 1 + r.Int64N(9), Window: time.Duration(5+r.IntN(40)) * time.Millisecond, By: by[i]}
			limit.Kind = pick(r, weir.KindRolling, weir.KindRolling, weir.KindBucket, weir.KindFixed, weir.KindFixedFromFirst)
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
				if _, err := l.Record(ctx, k, n); err != nil {
					t.Fatal(err)
				}
			case 1:
				if _, err := l.Refund(ctx, k, grants[r.IntN(len(grants))], n); err != nil {
					t.Fatal(err)
				}
			case 2:
				if _, err := l.Reset(ctx, k); err != nil {
					t.Fatal(err)
				}
			}
			before := conn.calls
			d := mustAllowN(t, l, k, n)
			if d.Granted > 0 {
				grants = append(grants[max(0, len(grants)-3):], d.At)
			}
			if conn.calls != before {
				continue
			}
			remembered[p.Mode]++
			want := mustPeek(t, l.At(d.At), k, n)
			want.Cached = true
			if d.Allowed || d != want {
				t.Fatalf("seed %d: from the cache %+v, from Redis %+v\n%+v", seed, d, want, p)
			}
		}
	}
	if few() {
		t.Errorf("only %v denials came from the cache", remembered)
	}
	t.Logf("%v denials came from the cache", remembered)
}
