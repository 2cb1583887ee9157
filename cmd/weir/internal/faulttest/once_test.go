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
			wantCharged(t, g, user, 2)
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
			wantCharged(t, g, user, 2)
		}
	})
}

// insist requests two units with one idempotency key until there is an answer. The first try has
// the timeout wait; behind it the proxy is healed.
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
	if !d.Allowed || d.Granted != 2 {
		t.Errorf("%s: got %+v, want two units", user, d)
	}
	return d
}

// wantCharged checks that the user's limits hold that number of units.
func wantCharged(t *testing.T, g *rig, user string, units int64) {
	t.Helper()
	for _, s := range g.states(t, user) {
		if s.Name == "user" && s.Used != units {
			t.Errorf("%s: %d units were charged, want %d", user, s.Used, units)
		}
	}
}
