package replay

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// decided is one decision of a log.
type decided struct {
	at     int64
	denied bool
}

// randomDecisions are in order, except for some that are late, also by years.
func randomDecisions(r *rand.Rand, n int) (all []decided) {
	at, pace := int64(1772697600*second), int64(1)<<r.IntN(40)
	for range n {
		at += r.Int64N(pace)
		d := decided{min(at, 1<<53-1), r.IntN(3) == 0}
		switch r.IntN(100) {
		case 0:
			d.at = r.Int64N(d.at)
		case 1, 2:
			d.at -= r.Int64N(100 * second)
		}
		all = append(all, d)
	}
	return all
}

// slotCounts counts instants by slots, from the first decision of a log to the last.
func slotCounts(all []decided, width time.Duration, is func(decided) bool) (start time.Time, counts []int64) {
	slot := func(at int64) int64 { return at / width.Microseconds() }
	first, last := slot(all[0].at), slot(all[0].at)
	for _, d := range all {
		first, last = min(first, slot(d.at)), max(last, slot(d.at))
	}
	counts = make([]int64, last-first+1)
	for _, d := range all {
		if is(d) {
			counts[slot(d.at)-first]++
		}
	}
	return time.UnixMicro(first * width.Microseconds()).UTC(), counts
}

// TestTimelinesCountEveryDecision compares the slots with a count over the whole list.
func TestTimelinesCountEveryDecision(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		all := randomDecisions(r, 1+r.IntN(3000))
		var line Slots
		for _, d := range all {
			line.Add(d.at, d.denied)
		}
		got := line.Timeline()
		start, denied := slotCounts(all, got.Width, func(d decided) bool { return d.denied })
		_, allowed := slotCounts(all, got.Width, func(d decided) bool { return !d.denied })
		if want := (Timeline{start, got.Width, allowed, denied}); !reflect.DeepEqual(got, want) || len(allowed) > timelineSlots {
			t.Fatalf("seed %d: got %+v\nwant %+v", seed, got, want)
		}
		const ratio = 5 // the largest one of neighbouring widths
		if n := len(got.Allowed); got.Width > time.Second && n < timelineSlots/ratio {
			t.Errorf("seed %d: %d slots of %v; narrower ones would fit", seed, n, got.Width)
		}
	}
}
