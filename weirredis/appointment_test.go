package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// afterEval is a Conn that calls a function behind every call.
type afterEval struct {
	weirredis.Conn
	after func()
}

func (c *afterEval) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	reply, err := c.Conn.Eval(ctx, s, keys, args)
	c.after()
	return reply, err
}

// waitFor decides an attempt that may wait at an instant.
func waitFor(t testing.TB, l *weir.Limiter, after, wait time.Duration) weir.Decision {
	t.Helper()
	req := weir.Request{N: 1, At: nine.Add(after), MaxWait: wait}
	return mustDecide(t, l, weir.K("u"), req)
}

// TestWaitTakesOneCall: a waiting caller makes one call, and two if its context ends (R18).
func TestWaitTakesOneCall(t *testing.T) {
	s := redistest.Start(t)
	conn := &afterEval{s.Conn(t), func() {}}
	e := newEngine(t, conn)
	for name, limit := range map[string]weir.Limit{
		"rolling": perUser(1, time.Hour),
		"bucket":  bucket(1, time.Hour, 1),
		"hours":   {Name: "user", Max: 1, Kind: weir.KindFixed, Period: weir.Month, By: []string{"user"}},
	} {
		conn.after = func() {}
		wait, stop := context.WithCancel(ctx)
		l := limiter(t, e, "waits"+name, weir.AllOrNothing, limit)
		before := commands(t, s, "evalsha")
		if _, err := l.Wait(wait, weir.K("u")); err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, commands(t, s, "evalsha")-before, 1, "%s: calls of a caller that finds room", name)
		mustDecide(t, l, weir.K("u"), weir.Request{N: 1, MaxWait: weir.Never})
		assert.Equal(t, commands(t, s, "evalsha")-before, 2, "%s: with those of one that waits", name)
		conn.after = stop
		_, err := l.Wait(wait, weir.K("u"))
		var failed *weir.WaitError
		if !errors.As(err, &failed) || failed.Decision.StartAfter == 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want a wait that was cancelled", name, err)
		}
		assert.Equal(t, commands(t, s, "evalsha")-before, 4, "%s: with those of one that leaves", name)
		var state [1]weir.LimitState
		mustDecide(t, l, weir.K("u"), weir.Request{N: 1, MaxWait: time.Microsecond, States: state[:]})
		assert.Equal(t, state[0].Ahead, 1, "%s: units ahead after the cancel", name)
	}
}

// TestAppointmentsAreFound: calls that do not wait find appointments. The first ones are sent again
// to a script that reads them, with the calls behind them; the next ones are sent there.
func TestAppointmentsAreFound(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
	all := weir.Limit{Name: "all", Max: 3, Window: time.Hour}
	l := limiter(t, e, "found", weir.AllOrNothing, perUser(1, time.Hour), all)
	waitFor(t, l, 0, 0)
	assert.Equal(t, waitFor(t, l, time.Minute, weir.Never).StartAfter, 59*time.Minute, "the wait")
	shared := limiter(t, e, "found", weir.AllOrNothing, all)
	call := func(of *weir.Limiter, key engine.Key) engine.Call {
		return engine.Call{Rules: of.Compiled(), Key: key, N: 1, At: nine.Add(2 * time.Minute).UnixMicro(), Given: true}
	}
	for _, want := range []struct {
		calls   int
		allowed string
	}{{2, "yn"}, {1, "nn"}} {
		calls := []engine.Call{call(l, weir.K("v")), call(shared, weir.K())}
		before := commands(t, s, "evalsha")
		e.Do(ctx, calls)
		got := ""
		for i := range calls {
			if calls[i].Result.Allowed {
				got += "y"
			} else {
				got += "n"
			}
			assert.Equal(t, fmt.Sprint(calls[i].Err), "<nil>", "call %d", i)
		}
		assert.Equal(t, got, want.allowed, "whether the calls are granted, in their order")
		assert.Equal(t, commands(t, s, "evalsha")-before, want.calls, "calls of the server")
	}
}

// TestAppointmentsInWindowsAhead books a unit in each of forty windows, more than a request has at
// first.
func TestAppointmentsInWindowsAhead(t *testing.T) {
	e := newEngine(t, redisConn(t))
	daily := weir.Limit{Name: "user", Max: 1, Kind: weir.KindFixed, Period: weir.Day, By: []string{"user"}}
	l := limiter(t, e, "ahead", weir.AllOrNothing, daily)
	day := nine.Truncate(24 * time.Hour).Sub(nine)
	for i := range 40 {
		d := waitFor(t, l, 0, weir.Never)
		if start := d.At.Add(d.StartAfter); i > 0 && !start.Equal(nine.Add(day+time.Duration(i)*24*time.Hour)) {
			t.Errorf("booking %d starts at %v", i, start)
		}
		assert.Equal(t, d.ResetAfter, day+time.Duration(i+1)*24*time.Hour, "booking %d: until nothing counts", i)
	}
	d := mustAllow(t, l.At(nine.Add(40*24*time.Hour)), weir.K("u"))
	assert.Equal(t, d.Allowed, true, "the day behind the last appointment has room")
}

// TestKeysLiveAsLongAsAppointments: a key lives until the units of its last appointment have left,
// and its minimum interval is over (R13).
func TestKeysLiveAsLongAsAppointments(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	apart := perUser(9, time.Minute)
	apart.MinInterval = time.Minute
	cells := perUser(1, time.Minute)
	cells.Cells = 6
	for i, limit := range []weir.Limit{
		perUser(1, time.Minute), apart, cells, bucket(1, time.Minute, 1),
		{Name: "user", Max: 1, Kind: weir.KindFixed, Window: time.Minute, By: []string{"user"}},
		{Name: "user", Max: 1, Kind: weir.KindFixedFromFirst, Window: time.Minute, By: []string{"user"}},
		{Name: "user", Max: 1, Kind: weir.KindFixed, Period: weir.Hour, By: []string{"user"}},
	} {
		l := limiter(t, e, fmt.Sprint("life", i), weir.AllOrNothing, limit)
		key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		for j := range 5 {
			before := time.Now()
			d := mustDecide(t, l, weir.K("u"), weir.Request{N: 1, MaxWait: weir.Never})
			if least := max(d.ResetAfter, d.StartAfter+limit.MinInterval); shorter(ttl(t, s, key), least, before) {
				t.Errorf("%+v: booking %d: the key lives %v, want %v", limit, j, ttl(t, s, key), least)
			}
		}
		before := time.Now()
		d, err := l.Record(ctx, weir.K("u"), 1)
		if err != nil {
			t.Fatal(err)
		}
		if shorter(ttl(t, s, key), d.ResetAfter, before) {
			t.Errorf("%+v: a record: the key lives %v, want %v", limit, ttl(t, s, key), d.ResetAfter)
		}
	}
}

// TestManyAppointmentsBecomeEntries books 500 units and decides when all of them have begun. They
// are entries in chunks then.
func TestManyAppointmentsBecomeEntries(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	l := limiter(t, e, "many", weir.AllOrNothing, perUser(1, time.Second))
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	for i := range 501 {
		assert.Equal(t, waitFor(t, l, 0, weir.Never).StartAfter, time.Duration(i)*time.Second, "booking %d", i)
	}
	size := len(s.Must(t, "HGET", key, "h"))
	if size > 500*14+100 {
		t.Errorf("500 appointments take %d bytes", size)
	}
	wide := limiter(t, e, "many", weir.AllOrNothing, perUser(600, time.Hour))
	count, err := wide.At(nine.Add(250*time.Second)).Count(ctx, weir.K("u"), "user", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, count, 251, "begun")
	assert.Equal(t, mustPeek(t, wide.At(nine.Add(250*time.Second)), weir.K("u"), 1).Remaining, 99, "with those ahead")
	if n := len(s.Must(t, "HGET", key, "h")); n != size {
		t.Errorf("a peek and a count changed the header from %d to %d bytes", size, n)
	}
	d := mustAllow(t, wide.At(nine.Add(500*time.Second)), weir.K("u"))
	assert.Equal(t, d.Remaining, 98, "remaining when all have begun")
	refunded, err := wide.At(nine.Add(500*time.Second)).Refund(ctx, weir.K("u"), nine.Add(77*time.Second), 1)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, refunded, 1, "a refund of one of them")
	if n := len(s.Must(t, "HGET", key, "h")); n > 300 || s.Must(t, "HLEN", key) == "1" {
		t.Errorf("the header has %d bytes, and there are %s fields", n, s.Must(t, "HLEN", key))
	}
	d = mustAllow(t, wide.At(nine.Add(time.Hour+100*time.Second)), weir.K("u"))
	assert.Equal(t, d.Remaining, 600-400-2, "remaining when a hundred have left")
}

// TestDamagedAppointments: an unreadable list is an error that names the key.
func TestDamagedAppointments(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	for i, limit := range []weir.Limit{perUser(1, time.Hour), bucket(1, time.Hour, 1)} {
		l := limiter(t, e, fmt.Sprint("damaged", i), weir.AllOrNothing, limit)
		waitFor(t, l, 0, 0)
		waitFor(t, l, 0, weir.Never)
		key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		header := s.Must(t, "HGET", key, "h")
		for name, bad := range map[string]string{
			"only its form":              header[:1],
			"cut off in the list":        header[:20],
			"nothing behind it":          header[:26],
			"a part of the header":       header[:30],
			"a count beyond all":         header[:8] + "\xff" + header[9:],
			"units beyond all":           header[:1] + "\xff" + header[2:],
			"fewer units than its count": header[:1] + strings.Repeat("\x00", 7) + header[8:],
		} {
			s.Must(t, "HSET", key, "h", bad)
			for _, wait := range []time.Duration{0, weir.Never} {
				_, err := l.Decide(ctx, weir.K("u"), weir.Request{N: 1, At: nine, MaxWait: wait})
				if !errors.Is(err, weirredis.ErrState) || !strings.Contains(err.Error(), key) {
					t.Errorf("%v: %s: got %v, want ErrState", limit.Kind, name, err)
				}
			}
			assert.Equal(t, s.Must(t, "HGET", key, "h"), bad, "%v: %s: the header", limit.Kind, name)
		}
	}
}

// TestCachedDenialsAndWaits: a cached denial is an answer only if its wait exceeds MaxWait, and an
// appointment ends it.
func TestCachedDenialsAndWaits(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(time.Hour))
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial} {
		l := limiter(t, e, fmt.Sprintf("cached%d-%d", mode, time.Now().UnixNano()), mode, perUser(2, time.Hour))
		decide := func(n int64, wait time.Duration) weir.Decision {
			t.Helper()
			return mustDecide(t, l, weir.K("u"), weir.Request{N: n, MaxWait: wait})
		}
		decide(1, 0)
		for _, cached := range []bool{false, true} {
			assert.Equal(t, decide(2, time.Minute).Cached, cached, "%v: a denial of a short wait", mode)
		}
		for range 2 { // it may be granted in part
			d := decide(2, 0)
			assert.Equal(t, d.Allowed, mode == weir.Partial && !d.Cached && d.Granted == 1, "%v: %v without a wait", mode, d)
			if d.Allowed {
				break
			}
		}
		d := decide(2, weir.Never)
		if d.StartAfter == 0 || d.Cached {
			t.Errorf("%v: got %+v, want an appointment", mode, d)
		}
		if after := decide(2, time.Minute); after.Cached || after.RetryAfter <= d.StartAfter {
			t.Errorf("%v: got %+v after an appointment at %v", mode, after, d.StartAfter)
		}
	}
}

// TestLongLinesOfABucket: a line of appointments under a bucket is decided as by the specification,
// with callers of other units and a cancel between.
func TestLongLinesOfABucket(t *testing.T) {
	limit := bucket(3, time.Second, 7)
	redis := limiter(t, newEngine(t, redisConn(t)), "line", weir.AllOrNothing, limit)
	exact := limiter(t, spec.New(), "line", weir.AllOrNothing, limit)
	for i := range 60 { // the specification's time grows with the third power of it
		at := nine.Add(time.Duration(i) * 70 * time.Millisecond)
		req := weir.Request{N: int64(1 + i%5), At: at, MaxWait: weir.Never}
		if i%9 == 8 {
			req.MaxWait = 0
		}
		states := [2][1]weir.LimitState{}
		var got, want weir.Decision
		for j, l := range []*weir.Limiter{redis, exact} {
			req.States = states[j][:]
			d := mustDecide(t, l, weir.K("u"), req)
			if got, want = d, got; j == 0 {
				want = d
			}
		}
		assert.Equal(t, want, got, "attempt %d", i)
		assert.Equal(t, states[0], states[1], "attempt %d: the state", i)
		if i%20 == 19 {
			start := got.At.Add(got.StartAfter)
			for _, l := range []*weir.Limiter{redis, exact} {
				n, err := l.At(at).Refund(ctx, weir.K("u"), start, 1)
				if err != nil {
					t.Fatal(err)
				}
				assert.Equal(t, n, 1, "a cancel")
			}
		}
	}
}
