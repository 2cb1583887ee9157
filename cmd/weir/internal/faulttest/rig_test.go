package faulttest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/dims"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirredis"
)

// patience is the timeout of conditions that must become true. It is long, because the
// machine may be crowded; only failures wait this long.
const patience = 30 * time.Second

// A rig is a policy on an engine under test. Beside the limit under test the policy has
// two limits that deny nothing, and so count all grants: one for all callers together
// and one for each user.
type rig struct {
	limiter *weir.Limiter
	name    string // of the policy
	limits  []weir.Limit
	users   []string
	clock   func() time.Duration
	around  func(engine.Engine) engine.Engine // puts an engine around the one under test; or nil
	beside  *rig                              // a rig with perUser that has traffic at the same time; or nil
	done    []call                            // of a rig beside another: the calls that have ended
}

// tightAndAll returns the limits of a rig. The limit under test is "tight": max units
// in a window, for all callers together.
func tightAndAll(max int64, window time.Duration) []weir.Limit {
	return []weir.Limit{
		{Name: "tight", Max: max, Window: window},
		{Name: "user", Max: weir.MaxUnits, Window: time.Hour, By: []string{"user"}},
		{Name: "all", Max: weir.MaxUnits, Window: time.Hour},
	}
}

// perUser is a policy of one limit, the commonest kind: it counts the units of each
// user in an hour and denies nothing.
var perUser = []weir.Limit{{Name: "user", Max: weir.MaxUnits, Window: time.Hour, By: []string{"user"}}}

var policies atomic.Int64

// newRig returns a rig with users a, b and c and a new policy.
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
	must.Do(t, c.connect(conn))
	return &c
}

// connect gives the rig an engine.
func (g *rig) connect(conn weirredis.Conn) error {
	redis, err := weirredis.New(conn)
	if err != nil {
		return err
	}
	var engine engine.Engine = redis
	if g.around != nil {
		engine = g.around(engine)
	}
	g.limiter, err = weir.New(weir.Policy{Name: g.name, Dimensions: dims.Of(g.limits...), Limits: g.limits}, weir.WithEngine(engine))
	return err
}

// states returns the state of a user's limits. It retries while the store fails.
func (g *rig) states(t testing.TB, user string) []weir.LimitState {
	t.Helper()
	states := make([]weir.LimitState, len(g.limits))
	eventually(t, "looking at user "+user, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := (&weir.Call{Limiter: g.limiter, Key: weir.K(user), Op: engine.Peek, Request: weir.Request{States: states}}).Do(ctx)
		return err
	})
	return states
}

// eventually retries until try succeeds, for patience at most.
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
