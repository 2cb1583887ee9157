package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirredis"
)

// TestDoTakesOneRoundTrip: calls of all forms share a round trip and an instant, up
// to 128 of them. Cached denials take none.
func TestDoTakesOneRoundTrip(t *testing.T) {
	conn := &countingConn{Conn: redisConn(t)}
	e := newEngine(t, conn)
	of := func(limits ...weir.Limit) *weir.Limiter {
		return limiter(t, e, fmt.Sprint("batch", time.Now().UnixNano()), weir.AllOrNothing, limits...)
	}
	hourly := perUser(2, time.Hour)
	inWindows := hourly
	inWindows.Kind = weir.KindFixed
	one, two := of(hourly), of(hourly, weir.Limit{Name: "m", Max: 9, Window: time.Minute, Cost: 3, By: []string{"user"}})
	bucket, fixed := of(bucket(2, time.Hour, 2)), of(inWindows)
	decide := func(wantTrips int, calls ...engine.Call) []engine.Call {
		t.Helper()
		before := conn.calls
		e.Do(ctx, calls)
		assert.Equal(t, conn.calls-before, wantTrips, "round trips")
		for i := range calls {
			if calls[i].Err != nil {
				t.Errorf("call %d: %v", i, calls[i].Err)
			}
		}
		return calls
	}
	attempt := func(l *weir.Limiter, k string, states int) engine.Call {
		c := callOf(l, k, engine.Call{})
		if states > 0 {
			c.States = make([]engine.State, states)
		}
		return c
	}
	want := func(calls []engine.Call, allowed string) {
		t.Helper()
		for i := range calls {
			d := &calls[i].Result
			assert.Equal(t, d.Allowed, allowed[i] == 'y', "call %d: %+v", i, *d)
			if !d.At.Equal(calls[0].Result.At) {
				t.Errorf("call %d is decided at %v, the first at %v", i, d.At, calls[0].Result.At)
			}
		}
	}
	want(decide(1, attempt(one, "a", 0), attempt(one, "a", 0), attempt(one, "b", 0), attempt(one, "a", 0)), "yyyn")
	want(decide(1, attempt(two, "a", 0), attempt(two, "a", 0), attempt(two, "a", 0)), "yyn")
	want(decide(1, attempt(bucket, "a", 0), attempt(bucket, "a", 0), attempt(bucket, "a", 0)), "yyn")
	mixed := decide(1, attempt(one, "c", 1), attempt(two, "c", 2), attempt(one, "c", 0), attempt(one, "c", 1), attempt(two, "d", 0))
	want(mixed, "yyyny")
	if s := mixed[3].States[0]; s.Used != 2 || s.Max != 2 || s.Name != "user" {
		t.Errorf("state %+v", s)
	}
	if s := mixed[1].States; s[0].Used != 1 || s[1].Used != 3 || mixed[1].Result.Granted != 1 {
		t.Errorf("states %+v of %+v", s, mixed[1].Result)
	}
	want(decide(1, attempt(one, "e", 0), attempt(bucket, "e", 1), attempt(fixed, "e", 1), attempt(bucket, "e", 0), attempt(bucket, "e", 1), attempt(fixed, "e", 0), attempt(fixed, "e", 0)), "yyyynyn")

	var many []engine.Call
	for i := range 300 {
		many = append(many, attempt(one, fmt.Sprint("many", i), 0))
	}
	decide(3, many...)

	operation := callOf(one, "f", engine.Call{ID: "id"})
	parts := decide(1, attempt(one, "f", 0), operation, attempt(one, "f", 0))
	want(parts, "yyn") // around an operation
	assert.Equal(t, decide(1, operation)[0].Result.Replayed, true, "the operation again: replayed")

	// A cached denial needs no round trip, unless a call before it may change it.
	e.WithClock(func() time.Time { return nine })
	denied, err := one.Allow(ctx, weir.K("a"))
	if err != nil || denied.Allowed {
		t.Fatal(denied, err)
	}
	decide(0, attempt(one, "a", 0), attempt(one, "a", 0))
	assert.Equal(t, decide(1, attempt(one, "g", 0), attempt(one, "a", 0))[1].Result.Allowed, false, "the second: allowed")
	// It has no states, and it is of one number of units.
	if s := decide(1, attempt(one, "a", 1), attempt(one, "g", 0))[0].States[0]; s.Name != "user" || s.Used != 2 {
		t.Errorf("state %+v", s)
	}
	decide(1, callOf(one, "a", engine.Call{N: 2}), callOf(one, "a", engine.Call{N: 2}))
}

// callOf returns a call of a limiter for one value, of 1 unit unless c has more.
func callOf(l *weir.Limiter, value string, c engine.Call) engine.Call {
	c.Rules, c.Key, c.N = l.Compiled(), weir.K(value), max(c.N, 1)
	return c
}

// clusterConn is a cannedConn of a Cluster.
type clusterConn struct{ *cannedConn }

func (clusterConn) Clustered(context.Context) (bool, error) { return true, nil }

// TestDoInAClusterSendsEachCallAlone: the keys of a script must share a slot.
func TestDoInAClusterSendsEachCallAlone(t *testing.T) {
	conn := clusterConn{&cannedConn{reply: weirredis.Grant(nine, 4)}}
	e := newEngine(t, conn)
	l := limiter(t, e, "cluster", weir.AllOrNothing, perUser(5, time.Second))
	calls := []engine.Call{callOf(l, "u", engine.Call{}), callOf(l, "v", engine.Call{})}
	e.Do(ctx, calls)
	if conn.calls != 2 || calls[0].Err != nil || calls[1].Err != nil {
		t.Errorf("%d round trips, want 2: %+v", conn.calls, calls)
	}
}

// TestTogetherInOneSlot: in a Cluster, calls whose histories are in different slots are
// rejected before anything is sent. The error names the first call in another slot.
func TestTogetherInOneSlot(t *testing.T) {
	conn := clusterConn{&cannedConn{}}
	l := limiter(t, newEngine(t, conn), "p", weir.AllOrNothing, perUser(5, time.Hour))
	var calls []weir.Call
	for _, user := range []string{"ann", "ann", "bob"} {
		calls = append(calls, weir.Call{Limiter: l, Key: weir.K(user), Request: weir.Request{N: 1}})
	}
	err := weir.DecideTogether(ctx, calls)
	var of *engine.CallError
	if !errors.As(err, &of) || of.Call != 2 || !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "slot") || conn.calls > 0 {
		t.Errorf("got %v after %d calls; want an error of call 2 about slots, and no call", err, conn.calls)
	}
}

// TestDoKeepsTheOrderOfInstants: a cached denial is not decided before an earlier call
// of the batch for the same key, which has the server's instant (R1). Other keys do not matter.
func TestDoKeepsTheOrderOfInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		canned := &cannedConn{}
		e := newEngine(t, clusterConn{canned}) // where no calls share a round trip
		l := limiter(t, e, "order", weir.AllOrNothing, perUser(5, time.Second))
		canned.reply, canned.took = weirredis.Denial(nine, 300_000, 900_000, 200_000), 30*time.Millisecond
		for _, k := range []string{"u", "v"} {
			mustAllow(t, l, weir.K(k))
		}
		canned.reply, canned.took = weirredis.Denial(nine.Add(60*time.Millisecond), 240_000, 840_000, 140_000), 5*time.Millisecond
		calls := []engine.Call{
			callOf(l, "u", engine.Call{Op: engine.Peek}),
			callOf(l, "w", engine.Call{ID: "sent"}),
			callOf(l, "u", engine.Call{}),
			callOf(l, "v", engine.Call{}),
		}
		before := canned.calls
		e.Do(ctx, calls)
		assert.Equal(t, canned.calls-before, 2, "calls; the others are answered from the cache")
		for i, want := range []time.Duration{60 * time.Millisecond, 60 * time.Millisecond, 60 * time.Millisecond, 10 * time.Millisecond} {
			d := &calls[i].Result
			if at := d.At.Sub(nine); calls[i].Err != nil || at != want || d.RetryAfter != 300*time.Millisecond-want || d.ResetAfter != 900*time.Millisecond-want {
				t.Errorf("call %d is decided after %v, want %v: %v, %v, %v", i, at, want, calls[i].Err, d, d.ResetAfter)
			}
		}
	})
}

// TestDoForgetsAnswersOfAnEarlierUse: a call that is used again, and one that fails
// then, has no part of its first result (R15).
func TestDoForgetsAnswersOfAnEarlierUse(t *testing.T) {
	for n := 1; n <= 2; n++ {
		conn := &cannedConn{reply: strings.Repeat(weirredis.Grant(nine, 4), n)}
		e := newEngine(t, conn)
		l := limiter(t, e, "again", weir.AllOrNothing, perUser(5, time.Second))
		calls := slices.Repeat([]engine.Call{callOf(l, "u", engine.Call{})}, n)
		e.Do(ctx, calls)
		if !calls[0].Result.Allowed {
			t.Fatalf("of %d: got %+v, want a grant", n, calls[0])
		}
		calls[0].Op, calls[0].From = engine.Count, 1
		e.Do(ctx, calls)
		assert.Equal(t, calls[0].Result, engine.Result{Granted: 1}, "of %d: a count", n)
		calls[0].Op = engine.Refund
		e.Do(ctx, calls)
		assert.Equal(t, calls[0].Result, engine.Result{Granted: 1, At: time.UnixMicro(nine.UnixMicro())}, "of %d: a refund", n)
		calls[0].Op = engine.Attempt
		conn.reply = "not a reply"
		e.Do(ctx, calls)
		if c := &calls[0]; !errors.Is(c.Err, weir.ErrOutcomeUnknown) || c.Result != (engine.Result{}) {
			t.Errorf("of %d: got %+v, want only ErrOutcomeUnknown", n, c)
		}
	}
}

// TestWindowsOfAPeriodAreRenewed: with a right clock, the windows of a Period are those of the
// instant, so that nothing is sent twice. They are not kept from an earlier window, nor for a
// virtual instant.
func TestWindowsOfAPeriodAreRenewed(t *testing.T) {
	conn := &countingConn{Conn: redisConn(t)}
	e := newEngine(t, conn, weirredis.DenialCacheTTL(0))
	var off time.Duration
	e.WithClock(func() time.Time { return time.Now().Add(off) })
	l := limiter(t, e, fmt.Sprint("renewed", time.Now().UnixNano()), weir.AllOrNothing,
		weir.Limit{Name: "month", Max: 9, Kind: weir.KindFixed, Period: weir.Month})
	for _, c := range []struct {
		name  string
		off   time.Duration
		call  engine.Call
		trips int
	}{
		{"a clock of two months ago", -62 * 24 * time.Hour, engine.Call{N: 1}, 2},
		{"a right clock", 0, engine.Call{N: 1}, 1},
		{"a right clock again", 0, engine.Call{N: 1}, 1},
		{"a virtual instant of next year", 0, engine.Call{N: 1, Given: true, At: time.Now().UnixMicro() + 366*24*3600*1e6}, 1},
	} {
		off, c.call.Rules = c.off, l.Compiled()
		before := conn.calls
		if d, err := do(e, c.call); err != nil || !d.Allowed || conn.calls-before != c.trips {
			t.Errorf("%s: got %+v, %v in %d round trips, want %d", c.name, d, err, conn.calls-before, c.trips)
		}
	}
}
