package faulttest

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
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// fill lowers the server's maxmemory below its use, and empty removes the bound.
func fill(t testing.TB, s *redistest.Server)  { s.Must(t, "CONFIG", "SET", "maxmemory", "1") }
func empty(t testing.TB, s *redistest.Server) { s.Must(t, "CONFIG", "SET", "maxmemory", "0") }

// stored returns the value and the expiry of every key of the server.
func stored(t testing.TB, s *redistest.Server) string {
	t.Helper()
	keys := s.List(t, "KEYS", "*")
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b, "%q: %q until %s\n", key, s.Must(t, "DUMP", key), s.Must(t, "PEXPIRETIME", key))
	}
	return b.String()
}

// A server without memory rejects writes. A rejected call is not recorded in any limit.
// Denials write nothing, so they are still answered.
func TestOutOfMemoryRecordsNothing(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(2, time.Hour))
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if c := g.attempt(ctx, "a", 1); c.granted != 1 {
			t.Fatalf("1 of 2: got %d granted and %v", c.granted, c.err)
		}

		fill(t, server)
		before := stored(t, server)
		for _, user := range []string{"a", "b"} {
			err := g.attempt(ctx, user, 1).err
			var s *weirredis.StoreError
			if !errors.As(err, &s) || s.OutcomeUnknown || !strings.Contains(err.Error(), "maxmemory") {
				t.Errorf("user %s without memory: got %v, want a StoreError about maxmemory that was surely not counted", user, err)
			}
		}
		if c := g.attempt(ctx, "b", 2); c.granted != 0 || c.err != nil {
			t.Errorf("a denial without memory: got %d granted and %v, want 0 and no error", c.granted, c.err)
		}
		if after := stored(t, server); after != before {
			t.Errorf("without memory: the server holds\n%sbefore it was\n%s", after, before)
		}

		empty(t, server)
		if c := g.attempt(ctx, "b", 1); c.granted != 1 {
			t.Errorf("with memory again: got %d granted and %v, want 1", c.granted, c.err)
		}
		for _, s := range g.states(t, "b") {
			if want := map[string]int64{"tight": 2, "user": 1, "all": 2}[s.Name]; s.Used != want {
				t.Errorf("limit %s holds %d units, want %d", s.Name, s.Used, want)
			}
		}
	})
}

// While memory runs out and returns under traffic, every grant is in every limit or in
// none, and no rejected call may have been counted.
func TestMemoryRunsOutAndReturns(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(weir.MaxUnits, time.Hour))
		f := g.traffic(8, patience, r)
		f.flows(t)
		for range 20 {
			fill(t, server)
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
			empty(t, server)
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
		f.flows(t)
		calls := f.end(t)
		someFailed(t, calls)
		if sum := ledgers(append(calls, g.beside.done...), nothingLost)[""]; sum.unknown > 0 {
			t.Errorf("%d units may have been counted; the server rejected them", sum.unknown)
		}
		g.settle(t, calls, nothingLost)
	})
}
