package faulttest

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

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
