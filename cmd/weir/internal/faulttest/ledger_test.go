package faulttest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// ledger sums up the answers that callers got.
type ledger struct {
	granted int64 // units in grants
	kept    int64 // those of them that the store must still hold
	unknown int64 // units of calls that may have been counted
}

// ledgers sums up the calls by user, and all calls under "". The store must still hold
// the grants of calls made after since.
func ledgers(calls []call, since time.Duration) map[string]ledger {
	m := map[string]ledger{}
	for _, c := range calls {
		for _, user := range []string{"", c.user} {
			sum := m[user]
			switch {
			case c.degraded || c.err != nil && outcomeUnknown(c.err):
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

// nothingLost is the argument since for a store that has lost nothing.
const nothingLost time.Duration = 0

// settle compares the store's units with the answers. The store must not hold units
// without a grant, must hold all grants made after since, and must hold the same grants
// in all limits. settle returns the least number of units that the store has lost.
func (g *rig) settle(t testing.TB, calls []call, since time.Duration) (lost int64) {
	t.Helper()
	if g.beside != nil && len(g.beside.done) > 0 {
		g.beside.settle(t, g.beside.done, since)
	}
	all := ledgers(calls, since)
	t.Logf("%d calls, %d failed; %d units granted, %d unknown", len(calls), failures(calls), all[""].granted, all[""].unknown)
	if all[""].granted == 0 {
		t.Error("nothing was granted: the test had no traffic")
	}
	// Abandoned calls may still be on their way to the server.
	eventually(t, "comparing limits", func() error { return g.agree(t) })
	for _, user := range g.users {
		answers, used := all[user], g.used(t, user, "user")
		if used > answers.granted+answers.unknown {
			t.Errorf("user %s: the store holds %d units, callers were granted %d and %d are unknown: some were counted twice or against the answer",
				user, used, answers.granted, answers.unknown)
		}
		if used < answers.kept {
			t.Errorf("user %s: the store holds %d units, callers were granted %d since %v: some were not recorded", user, used, answers.kept, since)
		}
		lost += max(0, answers.granted-used)
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

// used returns the units that a limit of the user holds.
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

// audit searches the calls for a window of the tight limit with more units than its Max
// and the lost units.
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

// fullest returns the most units granted in calls that lie entirely within a time
// shorter than span, and the start of that time. It uses only the instants at which calls
// were made and returned.
func fullest(calls []call, span time.Duration) (from time.Duration, units int64) {
	sorted := slices.Clone(calls)
	slices.SortFunc(sorted, func(a, b call) int { return cmp.Compare(a.from, b.from) })
	for i, first := range sorted {
		sum := int64(0)
		for _, c := range sorted[i:] {
			if c.from >= first.from+span {
				break
			}
			if c.to < first.from+span {
				sum += c.granted
			}
		}
		if sum > units {
			from, units = first.from, sum
		}
	}
	return from, units
}

func TestFullestCountsOnlyWholeCalls(t *testing.T) {
	ms := time.Millisecond
	grant := func(from, to time.Duration, n int64) call { return call{from: from, to: to, granted: n} }
	for _, c := range []struct {
		name  string
		calls []call
		from  time.Duration
		units int64
	}{
		{"nothing", nil, 0, 0},
		{"apart", []call{grant(0, ms, 2), grant(20*ms, 21*ms, 3)}, 20 * ms, 3},
		{"together", []call{grant(0, ms, 2), grant(8*ms, 9*ms, 3)}, 0, 5},
		{"the second may have come later", []call{grant(0, ms, 2), grant(8*ms, 10*ms, 3)}, 8 * ms, 3},
		{"unsorted, the fullest in the middle", []call{grant(30*ms, 31*ms, 1), grant(12*ms, 13*ms, 4), grant(10*ms, 11*ms, 3), grant(0, ms, 1)}, 10 * ms, 7},
		{"a long call counts for no window", []call{grant(0, 50*ms, 9), grant(0, ms, 2), grant(ms, 2*ms, 0)}, 0, 2},
	} {
		if from, units := fullest(c.calls, 10*ms); from != c.from || units != c.units {
			t.Errorf("%s: got %d units from %v, want %d from %v", c.name, units, from, c.units, c.from)
		}
	}
}
