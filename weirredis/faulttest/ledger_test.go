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
	unknown int64 // units whose fate was left open
}

// ledgers sums up the calls by user, and for all under "".
func ledgers(calls []call) map[string]ledger {
	m := map[string]ledger{}
	for _, c := range calls {
		for _, user := range []string{"", c.user} {
			sum := m[user]
			sum.granted += c.granted
			if c.err != nil && mayHaveCounted(c.err) {
				sum.unknown += c.n
			}
			m[user] = sum
		}
	}
	return m
}

// loss says whether the store may have forgotten grants.
type loss bool

const (
	nothingLost loss = false
	someLost    loss = true
)

// settle compares what the store holds with what callers were told. Nothing is
// recorded that nobody can have been granted; nothing granted is missing, unless
// the store may have lost it; and all limits hold the same grants.
func (r *rig) settle(t testing.TB, calls []call, l loss) {
	t.Helper()
	told := ledgers(calls)
	t.Logf("%d calls, %d failed; %d units granted, %d unknown", len(calls), failures(calls), told[""].granted, told[""].unknown)
	if told[""].granted == 0 {
		t.Error("nothing was granted: the test saw nothing")
	}
	// Calls that nobody waits for any more may still be on their way to the server.
	eventually(t, "comparing limits", func() error { return r.agree(t) })
	for _, user := range r.users {
		r.settleUser(t, user, told[user], l)
	}
}

func (r *rig) settleUser(t testing.TB, user string, told ledger, l loss) {
	t.Helper()
	used := r.used(t, user, "user")
	if used > told.granted+told.unknown {
		t.Errorf("user %s: the store holds %d units, callers were granted %d and %d are unknown: some were counted twice or against the answer",
			user, used, told.granted, told.unknown)
	}
	if used < told.granted && l == nothingLost {
		t.Errorf("user %s: the store holds %d units, callers were granted %d: some were not recorded", user, used, told.granted)
	}
}

// agree compares the limit for all with those of the users, where both exist.
func (r *rig) agree(t testing.TB) error {
	if len(r.limits) <= limitAll {
		return nil
	}
	sum := int64(0)
	for _, user := range r.users {
		sum += r.used(t, user, "user")
	}
	if all := r.used(t, r.users[0], "all"); all != sum {
		return fmt.Errorf("the limit for all holds %d units, those of the users %d in sum: a write was partial", all, sum)
	}
	return nil
}

// used is what a limit of the user holds.
func (r *rig) used(t testing.TB, user, limit string) int64 {
	t.Helper()
	for _, s := range r.states(t, user) {
		if s.Name == limit {
			return s.Used
		}
	}
	t.Fatal(errors.New("no limit " + limit))
	return 0
}

// audit looks from outside for a window of the tight limit that holds more than
// it may: its Max, and whatever the store has lost.
func (r *rig) audit(t testing.TB, calls []call, lost int64) {
	t.Helper()
	tight := r.limits[limitTight]
	// Engines cut instants to microseconds: a window may be up to one shorter.
	at, units := fullest(calls, tight.Window-time.Microsecond)
	if units > tight.Max+lost {
		t.Errorf("window of %v from %v: %d units provably granted, at most %d + %d lost by the store",
			tight.Window, at, units, tight.Max, lost)
	}
}
