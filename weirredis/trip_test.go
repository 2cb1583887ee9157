package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// TestDecideAllTakesOneRoundTrip: calls of all forms share a round trip and an instant, up
// to 128 of them. Operations have one each, and cached denials none.
func TestDecideAllTakesOneRoundTrip(t *testing.T) {
	conn := &countingConn{Conn: redisConn(t)}
	e := newEngine(t, conn)
	name := func(form string) string { return fmt.Sprintf("batch%d.%s", time.Now().UnixNano(), form) }
	limiter := func(form string, limits ...weir.Limit) *weir.Limiter {
		t.Helper()
		l, err := weir.New(weir.Policy{Name: name(form), Limits: limits}, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	by := []string{"k"}
	one := limiter("one", weir.Limit{Name: "l", Max: 2, Window: time.Hour, By: by})
	two := limiter("two", weir.Limit{Name: "l", Max: 2, Window: time.Hour, By: by}, weir.Limit{Name: "m", Max: 9, Window: time.Minute, Cost: 3, By: by})
	bucket := limiter("bucket", weir.Limit{Name: "l", Max: 2, Window: time.Hour, Kind: weir.Bucket, By: by})
	fixed := limiter("fixed", weir.Limit{Name: "l", Max: 2, Window: time.Hour, Kind: weir.Fixed, By: by})
	decide := func(wantTrips int, calls ...weir.Call) []weir.Call {
		t.Helper()
		before := conn.calls
		e.DecideAll(context.Background(), calls)
		if got := conn.calls - before; got != wantTrips {
			t.Errorf("%d round trips, want %d", got, wantTrips)
		}
		for i := range calls {
			if calls[i].Err != nil {
				t.Errorf("call %d: %v", i, calls[i].Err)
			}
		}
		return calls
	}
	attempt := func(l *weir.Limiter, k string, states int) weir.Call {
		r := weir.Request{N: 1}
		if states > 0 {
			r.States = make([]weir.LimitState, states)
		}
		return l.Call(weir.K(k), r)
	}
	want := func(calls []weir.Call, allowed string) {
		t.Helper()
		for i := range calls {
			d := &calls[i].Decision
			if d.Allowed != (allowed[i] == 'y') {
				t.Errorf("call %d: %+v, want %c", i, *d, allowed[i])
			}
			if !d.At.Equal(calls[0].Decision.At) {
				t.Errorf("call %d is decided at %v, the first at %v", i, d.At, calls[0].Decision.At)
			}
		}
	}
	want(decide(1, attempt(one, "a", 0), attempt(one, "a", 0), attempt(one, "b", 0), attempt(one, "a", 0)), "yyyn")
	want(decide(1, attempt(two, "a", 0), attempt(two, "a", 0), attempt(two, "a", 0)), "yyn")
	want(decide(1, attempt(bucket, "a", 0), attempt(bucket, "a", 0), attempt(bucket, "a", 0)), "yyn")
	mixed := decide(1, attempt(one, "c", 1), attempt(two, "c", 2), attempt(one, "c", 0), attempt(one, "c", 1), attempt(two, "d", 0))
	want(mixed, "yyyny")
	if s := mixed[3].Request.States[0]; s.Used != 2 || s.Max != 2 || s.Name != "l" {
		t.Errorf("state %+v", s)
	}
	if s := mixed[1].Request.States; s[0].Used != 1 || s[1].Used != 3 || mixed[1].Decision.Granted != 1 {
		t.Errorf("states %+v of %+v", s, mixed[1].Decision)
	}
	want(decide(1, attempt(one, "e", 0), attempt(bucket, "e", 1), attempt(fixed, "e", 1), attempt(bucket, "e", 0), attempt(bucket, "e", 1), attempt(fixed, "e", 0), attempt(fixed, "e", 0)), "yyyynyn")

	var many []weir.Call
	for i := range 300 {
		many = append(many, attempt(one, fmt.Sprint("many", i), 0))
	}
	decide(3, many...)

	operation := one.Call(weir.K("f"), weir.Request{N: 1, ID: "id"})
	parts := decide(3, attempt(one, "f", 0), operation, attempt(one, "f", 0))
	if !parts[0].Decision.Allowed || !parts[1].Decision.Allowed || parts[2].Decision.Allowed {
		t.Errorf("around an operation: %+v", parts)
	}
	if again := decide(1, operation); !again[0].Decision.Replayed {
		t.Errorf("the operation again: %+v", again[0].Decision)
	}

	// A cached denial needs no round trip, unless a call before it may change it.
	e.WithClock(func() time.Time { return nine })
	denied, err := one.Allow(context.Background(), weir.K("a"))
	if err != nil || denied.Allowed {
		t.Fatal(denied, err)
	}
	decide(0, attempt(one, "a", 0), attempt(one, "a", 0))
	if calls := decide(1, attempt(one, "g", 0), attempt(one, "a", 0)); calls[1].Decision.Allowed {
		t.Errorf("%+v", calls[1].Decision)
	}
	// It has no states, and it is of one number of units.
	if s := decide(1, attempt(one, "a", 1))[0].Request.States[0]; s.Name != "l" || s.Used != 2 {
		t.Errorf("state %+v", s)
	}
	decide(1, one.Call(weir.K("a"), weir.Request{N: 2}))
}

// clusterConn is a cannedConn of a Cluster.
type clusterConn struct{ *cannedConn }

func (clusterConn) Clustered() bool { return true }

// TestDecideAllInAClusterSendsEachCallAlone: the keys of a script must share a slot.
func TestDecideAllInAClusterSendsEachCallAlone(t *testing.T) {
	conn := clusterConn{&cannedConn{reply: weirredis.Grant(nine, 4)}}
	e := newEngine(t, conn)
	l := limiter(t, e, "cluster", weir.AllOrNothing, perUser(5, time.Second))
	calls := []weir.Call{l.Call(weir.K("u"), weir.Request{N: 1}), l.Call(weir.K("v"), weir.Request{N: 1})}
	e.DecideAll(ctx, calls)
	if conn.calls != 2 || calls[0].Err != nil || calls[1].Err != nil {
		t.Errorf("%d round trips, want 2: %+v", conn.calls, calls)
	}
}

// TestDecideAllKeepsTheOrderOfInstants: a cached denial is not decided before an earlier call
// of the batch for the same key, whose instant is the server's (R1). Other keys do not matter.
func TestDecideAllKeepsTheOrderOfInstants(t *testing.T) {
	canned := &cannedConn{}
	for _, conn := range []weirredis.Conn{canned, clusterConn{canned}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine(t, conn)
			l := limiter(t, e, "order", weir.AllOrNothing, perUser(5, time.Second))
			canned.reply, canned.took = weirredis.Denial(nine, 300_000, 900_000, 200_000), 30*time.Millisecond
			for _, k := range []string{"u", "v"} {
				must(t)(l.Allow(ctx, weir.K(k)))
			}
			canned.reply, canned.took = weirredis.Denial(nine.Add(60*time.Millisecond), 240_000, 840_000, 140_000), 5*time.Millisecond
			calls := []weir.Call{
				l.Call(weir.K("u"), weir.Request{Op: weir.OpPeek, N: 1}),
				l.Call(weir.K("w"), weir.Request{N: 1, ID: "in a call of its own"}),
				l.Call(weir.K("u"), weir.Request{N: 1}),
				l.Call(weir.K("v"), weir.Request{N: 1}),
			}
			before := canned.calls
			e.DecideAll(ctx, calls)
			if got := canned.calls - before; got != 2 {
				t.Errorf("%d calls, want 2: the others are answered from the cache", got)
			}
			for i, want := range []time.Duration{60 * time.Millisecond, 60 * time.Millisecond, 60 * time.Millisecond, 10 * time.Millisecond} {
				d := &calls[i].Decision
				if at := d.At.Sub(nine); calls[i].Err != nil || at != want || d.RetryAfter != 300*time.Millisecond-want || d.ResetAfter != 900*time.Millisecond-want {
					t.Errorf("call %d is decided after %v, want %v: %v, %v, %v", i, at, want, calls[i].Err, d, d.ResetAfter)
				}
			}
		})
	}
}

// TestDecideAllSwitchesScripts: where the rate of a bucket has changed, the calls are decided
// by another script, in the same call of DecideAll.
func TestDecideAllSwitchesScripts(t *testing.T) {
	e := newEngine(t, redisConn(t))
	limits := func(max int64) *weir.Limiter {
		l, err := weir.New(weir.Policy{Name: "switches", Limits: []weir.Limit{{Name: "l", Max: max, Window: time.Hour, Kind: weir.Bucket, Burst: 3, By: []string{"k"}}}}, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	before, after := limits(3), limits(6)
	key := weir.K(fmt.Sprint(time.Now().UnixNano()))
	if d, err := before.AllowN(context.Background(), key, 2); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	for _, states := range [][]weir.LimitState{nil, make([]weir.LimitState, 1)} {
		calls := []weir.Call{
			after.Call(key, weir.Request{Op: weir.OpPeek, N: 1, States: states}),
			after.Call(key, weir.Request{Op: weir.OpPeek, N: 2, States: states}),
		}
		e.DecideAll(context.Background(), calls)
		if calls[0].Err != nil || calls[1].Err != nil || !calls[0].Decision.Allowed || calls[1].Decision.Allowed {
			t.Errorf("%+v", calls)
		}
	}
}

// TestDecideAllForgetsAnswersOfAnEarlierUse: a call that fails at its second use has no
// decision of the first (R15).
func TestDecideAllForgetsAnswersOfAnEarlierUse(t *testing.T) {
	conn := &cannedConn{reply: weirredis.Grant(nine, 4)}
	e := newEngine(t, conn)
	calls := []weir.Call{limiter(t, e, "again", weir.AllOrNothing, perUser(5, time.Second)).Call(weir.K("u"), weir.Request{N: 1})}
	e.DecideAll(ctx, calls)
	if !calls[0].Decision.Allowed {
		t.Fatalf("got %+v, want a grant", calls[0])
	}
	conn.reply = "not a reply"
	e.DecideAll(ctx, calls)
	if c := &calls[0]; !errors.Is(c.Err, weir.ErrOutcomeUnknown) || c.Decision != (weir.Decision{}) {
		t.Errorf("got %+v, want only ErrOutcomeUnknown", c)
	}
}
