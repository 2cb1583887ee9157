package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// maxReply is more than the bytes of any reply in these tests.
const maxReply = 160

// eachCut makes calls through a proxy under a policy of one limit and one of three. try resets the
// connection after n bytes, and reports whether an answer was lost.
func eachCut(t *testing.T, most int, try func(t *testing.T, g *rig, s *redistest.Server, p *redistest.Proxy, n int) (lost bool)) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		p := redistest.NewProxy(t, server.Addr)
		conn := c.open(t, at(p.Addr))
		for _, limits := range [][]weir.Limit{perUser, tightAndAll(weir.MaxUnits, time.Hour)} {
			g, lost := newRig(t, conn, limits), false
			for n := 0; n < most; n += step(r) {
				lost = try(t, g, server, p, n) || lost
			}
			if !lost {
				t.Error("no answer was lost")
			}
		}
	})
}

// TestCutCallsAreCountedOnce resets the connection at each byte of a request and of a reply. After
// a lost reply the server has decided, so a grant counts once. That call returns an error that it
// may have been counted, and is not sent again.
func TestCutCallsAreCountedOnce(t *testing.T) {
	eachCut(t, 2*maxReply, func(t *testing.T, g *rig, _ *redistest.Server, p *redistest.Proxy, n int) bool {
		cutOnce(t, g, p, redistest.Requests, n)
		return cutOnce(t, g, p, redistest.Replies, n).err != nil
	})
}

// TestCutCallsWithoutAScriptAreCountedOnce resets the connection at each byte of a reply that is
// NOSCRIPT: then the call behind it is repeated with the script's text.
func TestCutCallsWithoutAScriptAreCountedOnce(t *testing.T) {
	eachCut(t, maxReply, func(t *testing.T, g *rig, s *redistest.Server, p *redistest.Proxy, n int) bool {
		s.Must(t, "SCRIPT", "FLUSH")
		return cutOnce(t, g, p, redistest.Replies, n).err != nil
	})
}

// step returns the distance to the next byte that is tried: 1 with -faulttest.seeds.
func step(r *rand.Rand) int {
	if *seeds > 0 {
		return 1
	}
	return 1 + r.IntN(7)
}

// cutOnce makes one call for a new user and resets its connection after n bytes in one
// direction. It compares the answer with the store's units.
func cutOnce(t *testing.T, g *rig, p *redistest.Proxy, d redistest.Direction, n int) call {
	t.Helper()
	awaitAnswer(t, g) // on a connection after its handshake
	user := fmt.Sprintf("user-%d-%d", d, n)
	p.CutAfter(d, n)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := g.attempt(ctx, user, 1)
	p.Heal()
	used := g.used(t, user, "user")
	if c.err == nil && (c.granted != 1 || used != 1) {
		t.Errorf("cut after %d bytes: granted %d, want 1; the store holds %d, want 1", n, c.granted, used)
	}
	if c.err != nil && (used > 1 || used == 1 && !outcomeUnknown(c.err)) {
		t.Errorf("cut after %d bytes: the store holds %d units of a call with the error: %v", n, used, c.err)
	}
	return c
}

// awaitAnswer returns when the client has an open connection.
func awaitAnswer(t *testing.T, g *rig) {
	t.Helper()
	g.states(t, "another user")
}

// TestOnceIsChargedOnceAcrossCuts resets the connection at each byte of a call and of
// its reply. A caller that retries with the same idempotency key gets a grant, and is
// charged once in every limit.
func TestOnceIsChargedOnceAcrossCuts(t *testing.T) {
	eachCut(t, 3*maxReply, func(t *testing.T, g *rig, _ *redistest.Server, p *redistest.Proxy, n int) (repeated bool) {
		for _, way := range []redistest.Direction{redistest.Requests, redistest.Replies} {
			awaitAnswer(t, g)
			user := fmt.Sprintf("user-%d-%d", way, n)
			p.CutAfter(way, n)
			repeated = insist(t, g, p, user, patience).Replayed || repeated
		}
		return repeated
	})
}

// TestOnceIsChargedOnceAcrossTimeouts delays answers beyond the callers' deadlines.
func TestOnceIsChargedOnceAcrossTimeouts(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		p := redistest.NewProxy(t, server.Addr)
		g := newRig(t, c.open(t, at(p.Addr)), tightAndAll(weir.MaxUnits, time.Hour))
		for i := range 20 {
			awaitAnswer(t, g)
			user := fmt.Sprint("late-", i)
			if i%2 == 0 {
				p.Silence()
			} else {
				p.Latency(0, 20*time.Millisecond)
			}
			insist(t, g, p, user, time.Duration(1+r.IntN(15))*time.Millisecond)
		}
	})
}

// insist requests two units with one idempotency key until there is an answer, and checks that the
// user is charged once. The first try has the timeout wait; behind it the proxy is healed.
func insist(t *testing.T, g *rig, p *redistest.Proxy, user string, wait time.Duration) (d weir.Decision) {
	t.Helper()
	eventually(t, "granting "+user, func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		d, err = g.limiter.AllowOnce(ctx, weir.K(user), 2, "the operation of "+user)
		p.Heal()
		wait = patience
		return err
	})
	if used := g.used(t, user, "user"); !d.Allowed || d.Granted != 2 || used != 2 {
		t.Errorf("%s: got %+v and %d units charged, want two", user, d, used)
	}
	return d
}
