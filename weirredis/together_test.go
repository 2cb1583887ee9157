package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// clustered is a connection to a Cluster on which no call may arrive.
type clustered struct{ t *testing.T }

func (c clustered) Clustered() bool { return true }

func (c clustered) Eval(_ context.Context, s *weirredis.Script, keys, _ []string) (string, error) {
	c.t.Errorf("script %s was sent for %q", s.Name, keys)
	return "", errors.New("not expected")
}

// TestTogetherInOneSlot: in a Cluster, calls whose histories are in different slots are
// rejected before anything is sent. The error names the first call in another slot.
func TestTogetherInOneSlot(t *testing.T) {
	e, err := weirredis.New(clustered{t})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "day", Max: 5, Window: time.Hour, By: []string{"user"}}}}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	var calls []weir.Call
	for _, user := range []string{"ann", "ann", "bob"} {
		calls = append(calls, weir.Call{Limiter: l, Key: weir.K(user), Request: weir.Request{N: 1}})
	}
	err = weir.DecideTogether(context.Background(), calls)
	var of *weir.CallError
	if !errors.As(err, &of) || of.Call != 2 || !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "slot") {
		t.Errorf("got %v; want an error of call 2 about slots", err)
	}
}

// TestLimitsThatAreOnlyRead: a limit with a Cost below 0 is the one of a peek among calls
// together. It denies without room or within its interval, and nothing is written for it.
func TestLimitsThatAreOnlyRead(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 14))
		p := weir.Policy{Name: fmt.Sprint("read", time.Now().UnixNano())}
		for i := range 2 + r.IntN(4) {
			l := weir.Limit{Name: fmt.Sprint("l", i), Max: 2 + r.Int64N(20), Window: time.Duration(1+r.IntN(4)) * time.Second}
			l.MinInterval = pick(r, 0, 0, 100*time.Millisecond)
			l.Kind = pick(r, weir.Rolling, weir.Rolling, weir.Kind(seed%4))
			p.Limits = append(p.Limits, l)
		}
		charging, reading := plan(t, p), plan(t, p)
		last := len(reading.Limits) - 1
		reading.Limits[last].Cost = -1
		want, now := spec.New(), nine.UnixMicro()
		same := func(c engine.Call) {
			t.Helper()
			c.At, c.Given, c.States = now, true, pick(r, nil, make([]engine.State, len(p.Limits)))
			got, failed := do(e, c)
			states := c.States
			if states != nil {
				c.States = make([]engine.State, len(states))
			}
			expected, err := do(want, c)
			if got != expected || !slices.Equal(states, c.States) || failed != nil || err != nil {
				t.Fatalf("seed %d, op %d of %d, cost %d, %+v:\ngot  %+v, %v, %+v\nwant %+v, %v, %+v", seed, c.Op, c.N, c.Rules.Limits[last].Cost, p,
					got, failed, states, expected, err, c.States)
			}
		}
		key := weirredis.Keys(reading, weir.K(), false)[last]
		same(engine.Call{Rules: reading, N: 1})
		if s.Must(t, "EXISTS", key) != "0" {
			t.Fatalf("seed %d: a limit that is only read has the key %s", seed, key)
		}
		for range 60 {
			now += r.Int64N(400_000) - pick[int64](r, 0, 0, 0, 0, 300_000, 2_000_000)
			rules := pick(r, charging, reading, reading)
			same(engine.Call{Rules: rules, Op: pick(r, engine.Attempt, engine.Attempt, engine.Peek), N: 1 + r.Int64N(3)})
		}
	}
}
