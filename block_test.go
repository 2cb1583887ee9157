package weir_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// login returns a limiter of 3 a minute for each user, which blocks for 10 minutes, and of 5 an hour
// for each address.
func login(opts ...weir.Option) *weir.Limiter {
	return must(weir.New(weir.Policy{Name: "login", Dimensions: []string{"user", "ip"}, Limits: []weir.Limit{
		weir.PerMinute(3, "user").Named("user").Blocking(10 * time.Minute),
		weir.PerHour(5, "ip", "user").Named("pair"),
	}}, opts...))
}

var ann = weir.K("ann", "192.0.2.1")

// TestADenialBlocks: a denial by a limit with a block denies its key for longer, and each front of a
// limiter has the end of the block.
func TestADenialBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := login()
		must(l.AllowN(ctx, ann, 3))
		d := must(l.Allow(ctx, ann))
		if d.Allowed || d.Blocked != 10*time.Minute || d.RetryAfter != 10*time.Minute || d.Limit != "user" {
			t.Errorf("the fourth: %+v; want a block of 10m", d)
		}
		want := `denied by limit "user": its key is blocked for 10m0s; room again in 10m0s`
		assert.Equal(t, d.String(), want, "the sentence")
		time.Sleep(10*time.Minute - time.Microsecond)
		values := map[string]string{"user": "ann", "ip": "192.0.2.1"}
		o := must(l.DecideFor(ctx, values, weir.Request{N: 1}))
		if o.Allowed || !o.Blocked.Equal(time.Now().Add(time.Microsecond)) || o.States[0].Blocked != time.Microsecond {
			t.Errorf("the fifth: %+v; want the end of the block", o)
		}
		_, o, err := l.ReserveFor(ctx, values, weir.Request{N: 1})
		if err != nil || o.Allowed || o.Blocked.IsZero() {
			t.Errorf("a reservation: %+v, %v; want the end of the block", o, err)
		}
		time.Sleep(time.Microsecond)
		o = must(l.DecideFor(ctx, values, weir.Request{N: 1}))
		if !o.Allowed || !o.Blocked.IsZero() {
			t.Errorf("after the block: %+v", o)
		}
	})
}

// TestWaitOutlastsABlock: a wait lasts until the block is over, if its deadline permits that.
func TestWaitOutlastsABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := login()
		must(l.Block(ctx, ann, 10*time.Minute))
		began := time.Now()
		short, cancel := context.WithTimeout(ctx, 9*time.Minute)
		defer cancel()
		_, err := l.Wait(short, ann)
		wantError(t, "a deadline within the block", err, weir.ErrDeadline)
		assert.Equal(t, time.Since(began), 0, "it waited for")
		must(l.Wait(ctx, ann))
		assert.Equal(t, time.Since(began), 10*time.Minute, "the other one waited for")
	})
}

// TestBlock: a block denies attempts and peeks, not records. It never shortens a running one, and 0
// ends it.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := login()
		block := func(d time.Duration, limits ...string) time.Duration {
			t.Helper()
			until := must(l.Block(ctx, ann, d, limits...))
			if d == 0 && !until.IsZero() {
				t.Errorf("a block that was ended: until %v, want the zero Time", until)
			}
			if until.IsZero() {
				return 0
			}
			return time.Until(until)
		}
		assert.Equal(t, block(0), 0, "the end of no block")
		assert.Equal(t, block(time.Hour), time.Hour, "a block")
		assert.Equal(t, block(time.Minute), time.Hour, "a shorter one")
		if d := must(l.Peek(ctx, ann, 1)); d.Allowed || d.Limit != "pair" || d.RetryAfter != time.Hour {
			t.Errorf("a peek: %+v; want a denial by the limit of every dimension", d)
		}
		if d := must(l.Record(ctx, ann, 1)); !d.Allowed || d.String() != "allowed: its key is blocked for 1h0m0s" {
			t.Errorf("a record: %+v, %v", d, d)
		}
		assert.Equal(t, must(l.Allow(ctx, weir.K("bob", "192.0.2.1"))).Allowed, true, "another user")
		assert.Equal(t, block(0), 0, "its end")
		assert.Equal(t, must(l.Allow(ctx, ann)).Allowed, true, "after its end")

		until := must(l.Block(ctx, weir.K("ann"), time.Hour+1, "user")) // rounded up
		assert.Equal(t, time.Until(until), time.Hour+time.Microsecond, "a block of a named limit")
		elsewhere := must(l.Allow(ctx, weir.K("ann", "192.0.2.7")))
		assert.Equal(t, elsewhere.Allowed, false, "the user at another address")
		must(l.Reset(ctx, weir.K("ann"), "user"))
		assert.Equal(t, must(l.Allow(ctx, ann)).Allowed, true, "after a reset")

		at := must(l.At(nine).Block(ctx, ann, time.Hour))
		assert.Equal(t, at.Equal(nine.Add(time.Hour)), true, "a block at an instant ends at %v", at)
	})
}

// TestBlockOfBadInput: bad input blocks nothing, and names the next step (R14).
func TestBlockOfBadInput(t *testing.T) {
	l := login()
	for _, c := range []struct {
		key    weir.Key
		d      time.Duration
		limits []string
		field  string
		text   string
	}{
		{ann, -1, nil, "span", "0 ends it"},
		{ann, weir.MaxWindow + 1, nil, "span", "9600h0m0s"},
		{weir.K("ann"), time.Hour, nil, "key", `a block of ["pair"] takes the values of ["user" "ip"]`},
		{weir.K("ann", ""), time.Hour, nil, "key", "empty"},
		{ann, time.Hour, []string{"users"}, "limit", `use one of ["user" "pair"]`},
	} {
		until, err := l.Block(ctx, c.key, c.d, c.limits...)
		assert.Error(t, err, &weir.InputError{Field: c.field}, c.text)
		if !until.IsZero() {
			t.Errorf("%+v: blocked until %v", c, until)
		}
	}
	assert.Equal(t, must(l.Allow(ctx, ann)).Allowed, true, "an attempt after bad input")
}

// TestProbe: the peek of a policy whose units are reported later charges nothing, and a denied one
// begins the block of its limit.
func TestProbe(t *testing.T) {
	l := login()
	probe := weir.Call{Limiter: l, Key: ann, Op: engine.Probe, Request: weir.Request{N: 3}}
	for range 2 {
		if d := must(probe.Do(ctx)); !d.Allowed || d.Blocked != 0 {
			t.Errorf("a probe with room: %+v", d)
		}
	}
	must(l.Record(ctx, ann, 1))
	calls := []weir.Call{probe, {Limiter: l, Key: ann, Op: engine.Peek, Request: weir.Request{N: 1}}}
	weir.DecideAll(ctx, calls)
	if d := calls[0].Decision; d.Allowed || d.Blocked != 10*time.Minute || calls[1].Decision.Allowed {
		t.Errorf("a denied probe: %+v, then %+v; want a block", d, calls[1].Decision)
	}
	probe.Request.N = 0
	_, err := probe.Do(ctx)
	assert.Error(t, err, &weir.InputError{Field: "units"}, "a probe", "Peek looks without a charge")
	var one *engine.CallError
	if err := weir.DecideTogether(ctx, calls[:1]); !errors.As(err, &one) {
		t.Errorf("a probe together: %v; want an error that names the call", err)
	}
}

// TestTogetherBeginsTheBlockOfEachCall: of calls together, each begins the block of the limit that
// denied it, by the waits before these blocks. The block of a limit that both share does not count
// as a longer wait of the second call.
func TestTogetherBeginsTheBlockOfEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := must(weir.New(weir.Policy{Name: "mail", Dimensions: []string{"tenant", "user"}, Limits: []weir.Limit{
			weir.PerSecond(2, "tenant").Named("tenant").Blocking(time.Hour),
			weir.PerMinute(2, "user").Named("user").Blocking(time.Hour),
		}}))
		bob, ann := weir.K("acme", "bob"), weir.K("acme", "ann")
		must(l.AllowN(ctx, ann, 2))
		calls := []weir.Call{
			{Limiter: l, Key: bob, Request: weir.Request{N: 1}},
			{Limiter: l, Key: ann, Request: weir.Request{N: 1}},
		}
		if err := weir.DecideTogether(ctx, calls); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			key          weir.Key
			tenant, user time.Duration // rests of the blocks
		}{{bob, time.Hour, 0}, {ann, time.Hour, time.Hour}} {
			var s [2]weir.LimitState
			must(l.Decide(ctx, c.key, weir.Request{N: 1, States: s[:]}))
			if s[0].Blocked != c.tenant || s[1].Blocked != c.user {
				t.Errorf("blocks of tenant and user: %v, %v; want %v, %v", s[0].Blocked, s[1].Blocked, c.tenant, c.user)
			}
		}
	})
}
