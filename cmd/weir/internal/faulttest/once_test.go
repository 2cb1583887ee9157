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
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		p := redistest.NewProxy(t, server.Addr)
		conn := c.open(t, at(p.Addr))
		for _, g := range []*rig{newRig(t, conn, perUser), newRig(t, conn, tightAndAll(weir.MaxUnits, time.Hour))} {
			repeated := 0
			for _, way := range []redistest.Direction{redistest.Requests, redistest.Replies} {
				for n := 0; n < 3*maxReply; n += step(r) {
					awaitAnswer(t, g)
					user := fmt.Sprintf("user-%d-%d", way, n)
					p.CutAfter(way, n)
					if insist(t, g, p, user).Replayed {
						repeated++
					}
					p.Heal()
					wantCharged(t, g, user, 2)
				}
			}
			if repeated == 0 {
				t.Error("no answer was lost")
			}
		}
	})
}

// insist requests two units with one idempotency key until there is an answer. The first failure
// ends the fault.
func insist(t *testing.T, g *rig, p *redistest.Proxy, user string) (d weir.Decision) {
	t.Helper()
	eventually(t, "granting "+user, func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if d, err = g.limiter.AllowOnce(ctx, weir.K(user), 2, "the operation of "+user); err != nil {
			p.Heal()
		}
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
