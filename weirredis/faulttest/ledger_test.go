package faulttest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// ledger is what callers were told about their units.
type ledger struct {
	granted int64 // units that were granted
	kept    int64 // those of them that the store cannot have lost
	unknown int64 // units whose fate was left open
}

// ledgers sums up the calls by user, and for all under "". The store cannot have
// lost what was granted to calls made after since.
func ledgers(calls []call, since time.Duration) map[string]ledger {
	m := map[string]ledger{}
	for _, c := range calls {
		for _, user := range []string{"", c.user} {
			sum := m[user]
			switch {
			case c.degraded || c.err != nil && mayHaveCounted(c.err):
				sum.unknown += c.n
			case c.from >= since:
				sum.kept += c.granted
				fallthrough
			default:
				sum.granted += c.granted
			}
			m[user] = sum
		}
	}
	return m
}

// nothingLost is since when the store has lost nothing if it never did.
const nothingLost time.Duration = 0

// settle compares what the store holds with what callers were told. Nothing is
// recorded that nobody can have been granted; nothing that was granted since an
// instant is missing; and all limits hold the same grants. It returns how many
// units the store has lost at least.
func (g *rig) settle(t testing.TB, calls []call, since time.Duration) (lost int64) {
	t.Helper()
	if g.beside != nil && len(g.beside.said) > 0 {
		g.beside.settle(t, g.beside.said, since)
	}
	all := ledgers(calls, since)
	t.Logf("%d calls, %d failed; %d units granted, %d unknown; at most %v without an answer",
		len(calls), failures(calls), all[""].granted, all[""].unknown, outage(calls).Round(time.Millisecond))
	if all[""].granted == 0 {
		t.Error("nothing was granted: the test saw nothing")
	}
	// Calls that nobody waits for any more may still be on their way to the server.
	eventually(t, "comparing limits", func() error { return g.agree(t) })
	for _, user := range g.users {
		told, used := all[user], g.used(t, user, "user")
		if used > told.granted+told.unknown {
			t.Errorf("user %s: the store holds %d units, callers were granted %d and %d are unknown: some were counted twice or against the answer",
				user, used, told.granted, told.unknown)
		}
		if used < told.kept {
			t.Errorf("user %s: the store holds %d units, callers were granted %d since %v: some were not recorded", user, used, told.kept, since)
		}
		lost += max(0, told.granted-used)
	}
	return lost
}

// agree compares the limit for all with those of the users, where both exist.
func (g *rig) agree(t testing.TB) error {
	if len(g.limits) == 1 {
		return nil
	}
	sum := int64(0)
	for _, user := range g.users {
		sum += g.used(t, user, "user")
	}
	if all := g.used(t, g.users[0], "all"); all != sum {
		return fmt.Errorf("the limit for all holds %d units, those of the users %d in sum: a write was partial", all, sum)
	}
	return nil
}

// used is what a limit of the user holds.
func (g *rig) used(t testing.TB, user, limit string) int64 {
	t.Helper()
	for _, s := range g.states(t, user) {
		if s.Name == limit {
			return s.Used
		}
	}
	t.Fatal(errors.New("no limit " + limit))
	return 0
}

// audit looks from outside for a window of the tight limit that holds more than
// it may: its Max, and whatever the store has lost.
func (g *rig) audit(t testing.TB, calls []call, lost int64) {
	t.Helper()
	tight := g.limits[0]
	// Engines cut instants to microseconds: a window may be up to one shorter.
	at, units := fullest(calls, tight.Window-time.Microsecond)
	if units > tight.Max+lost {
		t.Errorf("window of %v from %v: %d units provably granted, at most %d + %d lost by the store",
			tight.Window, at, units, tight.Max, lost)
	}
}
