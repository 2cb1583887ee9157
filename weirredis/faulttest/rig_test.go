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
	limits  []weir.Limit
	users   []string
	start   time.Time
}

const (
	limitTight = iota // the limit under test
	limitUser         // all units of a user
	limitAll          // all units; where the policy has it
)

var policies atomic.Int64

// newRig returns a rig with three users, of a policy that was never used: at most
// max units in a window, for all callers together.
func newRig(t testing.TB, conn weirredis.Conn, max int64, window time.Duration) *rig {
	return newRigOf(t, conn, []weir.Limit{
		limitTight: {Name: "tight", Max: max, Window: window},
		limitUser:  {Name: "user", Max: weir.MaxUnits, Window: time.Hour, By: []string{"user"}},
		limitAll:   {Name: "all", Max: weir.MaxUnits, Window: time.Hour},
	}, "a", "b", "c")
}

// newSingle returns a rig whose policy has one limit, the commonest decision:
// units of each user in an hour, without bound.
func newSingle(t testing.TB, conn weirredis.Conn, users ...string) *rig {
	return newRigOf(t, conn, []weir.Limit{
		{Name: "user", Max: weir.MaxUnits, Window: time.Hour, By: []string{"user"}},
	}, users...)
}

func newRigOf(t testing.TB, conn weirredis.Conn, limits []weir.Limit, users ...string) *rig {
	t.Helper()
	name := fmt.Sprintf("faults-%d", policies.Add(1))
	engine, err := weirredis.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{limits: limits, users: users, start: time.Now()}
	r.limiter, err = weir.New(weir.Policy{Name: name, Limits: limits}, weir.WithEngine(engine))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// states returns what a user's limits hold, asking again while the store fails.
func (r *rig) states(t testing.TB, user string) []weir.LimitState {
	t.Helper()
	var states []weir.LimitState
	eventually(t, "looking at user "+user, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var err error
		_, states, err = r.limiter.Inspect(ctx, weir.K(user), weir.OpPeek, 0)
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
