package faulttest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// patience is how long anything may take that has to happen at all. Only failures
// wait this long, since the machine may be crowded.
const patience = 30 * time.Second

// A rig is a policy on an engine, and what is needed to hold it to its promises:
// beside the limit under test the policy has limits that refuse nothing and so
// count everything that was granted, once for all callers and once for each.
type rig struct {
	limiter *weir.Limiter
	name    string // of the policy
	limits  []weir.Limit
	users   []string
	clock   func() time.Duration
	around  func(weir.Engine) weir.Engine // puts an engine around the one under test; or nil
	beside  *rig                          // a rig of the commonest kind that has traffic at the same time; or nil
	said    []call                        // of a rig beside another: the calls that have ended
}

// tightAndAll are the limits of a rig whose limit under test allows max units in a
// window, for all callers together.
func tightAndAll(max int64, window time.Duration) []weir.Limit {
	return []weir.Limit{
		{Name: "tight", Max: max, Window: window},
		{Name: "user", Max: weir.MaxUnits, Window: time.Hour, By: []string{"user"}},
		{Name: "all", Max: weir.MaxUnits, Window: time.Hour},
	}
}

// perUser is one limit, which is the commonest decision: the units of each user in
// an hour, without bound.
var perUser = []weir.Limit{{Name: "user", Max: weir.MaxUnits, Window: time.Hour, By: []string{"user"}}}

var policies atomic.Int64

// newRig returns a rig with users a, b and c, of a policy that was never used.
func newRig(t testing.TB, conn weirredis.Conn, limits []weir.Limit) *rig {
	t.Helper()
	start := time.Now()
	g := &rig{
		name:   fmt.Sprintf("faults-%d", policies.Add(1)),
		limits: limits,
		users:  []string{"a", "b", "c"},
		clock:  func() time.Duration { return time.Since(start) },
	}
	if len(limits) > 1 {
		g.beside = newRig(t, conn, perUser)
		g.beside.clock = g.clock
	}
	return g.on(t, conn)
}

// on returns the rig with another engine on the same store.
func (g *rig) on(t testing.TB, conn weirredis.Conn) *rig {
	t.Helper()
	c := *g
	if err := c.connect(conn); err != nil {
		t.Fatal(err)
	}
	return &c
}

// connect gives the rig an engine.
func (g *rig) connect(conn weirredis.Conn) error {
	redis, err := weirredis.New(conn)
	if err != nil {
		return err
	}
	var engine weir.Engine = redis
	if g.around != nil {
		engine = g.around(engine)
	}
	g.limiter, err = weir.New(weir.Policy{Name: g.name, Limits: g.limits}, weir.WithEngine(engine))
	return err
}

// states returns what a user's limits hold, asking again while the store fails.
func (g *rig) states(t testing.TB, user string) []weir.LimitState {
	t.Helper()
	states := make([]weir.LimitState, len(g.limits))
	eventually(t, "looking at user "+user, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := g.limiter.Decide(ctx, weir.K(user), weir.Request{Op: weir.OpPeek, At: weir.Now, States: states})
		return err
	})
	return states
}

// eventually tries until it succeeds, for as long as patience.
func eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: still after %v: %v", what, patience, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
