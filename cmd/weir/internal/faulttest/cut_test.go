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

// TestCutRepliesAreNotRetried resets the connection at each byte of a reply. The server
// has decided, so a grant counts once. A call without its reply returns an error that it
// may have been counted, and is not sent again.
func TestCutRepliesAreNotRetried(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		p := redistest.NewProxy(t, server.Addr)
		conn := c.open(t, at(p.Addr))
		for _, g := range []*rig{newRig(t, conn, perUser), newRig(t, conn, tightAndAll(weir.MaxUnits, time.Hour))} {
			lost := 0
			for n := 0; n < maxReply; n += step(r) {
				if cutOnce(t, g, p, redistest.Replies, n).err != nil {
					lost++
				}
			}
			if lost == 0 {
				t.Error("no reply was lost")
			}
		}
	})
}

// TestCutCallsAreCountedOnce resets the connection at each byte of a request, and of a reply
// that is NOSCRIPT: then the call behind it is repeated with the script's text.
func TestCutCallsAreCountedOnce(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		p := redistest.NewProxy(t, server.Addr)
		g := newRig(t, c.open(t, at(p.Addr)), perUser)
		for n := 0; n < 2*maxReply; n += step(r) {
			cutOnce(t, g, p, redistest.Requests, n)
		}
		for n := 0; n < maxReply; n += step(r) {
			server.Must(t, "SCRIPT", "FLUSH")
			cutOnce(t, g, p, redistest.Replies, n)
		}
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
	for _, s := range g.states(t, user) {
		if s.Name != "user" {
			continue
		}
		if c.err == nil && (c.granted != 1 || s.Used != 1) {
			t.Errorf("cut after %d bytes: granted %d, want 1; the store holds %d, want 1", n, c.granted, s.Used)
		}
		if c.err != nil && (s.Used > 1 || s.Used == 1 && !outcomeUnknown(c.err)) {
			t.Errorf("cut after %d bytes: the store holds %d units of a call with the error: %v", n, s.Used, c.err)
		}
	}
	return c
}

// awaitAnswer returns when the client has an open connection.
func awaitAnswer(t *testing.T, g *rig) {
	t.Helper()
	g.states(t, "another user")
}
