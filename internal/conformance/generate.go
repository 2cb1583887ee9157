package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

const us = time.Microsecond

// maxPlain is the largest Max that is not huge: many grants of it stay below 2^53.
const maxPlain = 1 << 45

// dims are the dimensions of random policies, and values those of their keys. They are few,
// so that histories are shared, and hostile (R14).
var (
	dims   = []string{"user", "ip", "tenant"}
	values = []string{"a", "b", "", "a\x00", "{a}", "a:b", "1:a", "a\nb", "\xff", "日"}
)

// scales are approximate lengths of the windows of one random policy.
var scales = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, time.Second, 5 * time.Second, time.Minute,
	10 * time.Minute, 10 * time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 300 * 24 * time.Hour,
}

// randomPolicy returns a policy of one to four limits.
func randomPolicy(r *rand.Rand, minWindow time.Duration) *mutablePolicy {
	b := &mutablePolicy{name: "p", mode: weir.Mode(r.IntN(3))}
	scale := scales[r.IntN(len(scales))]
	huge := r.IntN(8) == 0
	fixed := r.IntN(5) == 0 // seldom: rolling windows have more faults
	for i := range []int{1, 1, 2, 3, 4}[r.IntN(5)] {
		limit := weir.Limit{Name: fmt.Sprintf("l%d", i), By: randomDims(r), Max: randomMax(r, huge)}
		limit.Window = randomWindow(r, scale, minWindow)
		if r.IntN(3) == 0 {
			limit.MinInterval = randomGap(r, limit.Window)
		}
		switch cells := r.IntN(4) == 0; {
		case fixed && r.IntN(3) > 0:
			limit.Kind = weir.Calendar + weir.Kind(r.IntN(2))
		case cells:
			limit.Cells = randomCells(r)
		}
		b.limits = append(b.limits, limit)
		b.order = append(b.order, limit.Name)
	}
	if b.mode != weir.Partial && r.IntN(5) == 0 {
		for i := range b.limits {
			b.limits[i].Cost = randomCost(r, b.limits[i].Max)
		}
	}
	return b
}

// randomCost returns a cost that fits a few times, once or never, or 0 for none.
func randomCost(r *rand.Rand, most int64) int64 {
	switch r.IntN(6) {
	case 0, 1:
		return 0
	case 2:
		return min(most+r.Int64N(2), weir.MaxUnits)
	}
	return 1 + r.Int64N(3)
}

// randomDims returns dimensions in a fixed order: no rule decides whether By of (a, b) and
// of (b, a) share histories.
func randomDims(r *rand.Rand) []string {
	if r.IntN(3) == 0 {
		return []string{dims[r.IntN(len(dims))]} // the most frequent case, for which engines may have fast paths
	}
	var by []string
	for _, dim := range dims {
		if r.IntN(3) == 0 {
			by = append(by, dim)
		}
	}
	return by
}

func randomMax(r *rand.Rand, huge bool) int64 {
	switch {
	case huge:
		return weir.MaxUnits - r.Int64N(1<<uint(r.IntN(53)))
	case r.IntN(20) == 0:
		return r.Int64N(maxPlain)
	case r.IntN(12) == 0:
		return nearPower(r) * (1 + r.Int64N(2))
	case r.IntN(6) == 0:
		return r.Int64N(40)
	}
	return r.Int64N(7)
}

// nearPower returns a number near a power of two, where engines that pack units into fewer
// bits may fail.
func nearPower(r *rand.Rand) int64 {
	return 1<<[]int{7, 8, 15, 16, 24, 31, 32}[r.IntN(7)] + r.Int64N(5) - 2
}

func randomWindow(r *rand.Rand, scale, minWindow time.Duration) time.Duration {
	w := scale
	switch r.IntN(4) {
	case 0:
		w = scale/2 + time.Duration(r.Int64N(int64(scale)))
	case 1:
		w = scale + time.Duration(r.IntN(7)-3)*us
	case 2:
		w = scale / time.Duration(1+r.IntN(4))
	}
	return min(max(w.Truncate(us), minWindow, weir.MinWindow), weir.MaxWindow)
}

func randomGap(r *rand.Rand, window time.Duration) time.Duration {
	if r.IntN(5) == 0 {
		return window
	}
	return time.Duration(r.Int64N(int64(window) / int64(1+r.IntN(8)))).Truncate(us)
}

func randomCells(r *rand.Rand) int {
	return []int{1, 2, 3, 5, 7, 10, 60, 1000, 1_000_000}[r.IntN(9)]
}

// randomKeys returns a few keys over all dimensions.
func randomKeys(r *rand.Rand) [][]keyPart {
	keys := make([][]keyPart, 1+r.IntN(4))
	few := make([]string, 2)
	for i := range few {
		few[i] = values[r.IntN(len(values))]
	}
	for i := range keys {
		for _, dim := range dims {
			keys[i] = append(keys[i], keyPart{dim, few[r.IntN(len(few))]})
		}
	}
	return keys
}

// randomChange returns the words of a change of b (R12).
func randomChange(r *rand.Rand, b *mutablePolicy, minWindow time.Duration) []string {
	limit := b.limits[r.IntN(len(b.limits))]
	switch r.IntN(8) {
	case 0:
		return []string{"mode=" + randomMode(r, b)}
	case 1:
		names := slices.Clone(b.order)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if len(names) > 1 && r.IntN(3) == 0 {
			names = names[1:]
		} else if len(names) < len(b.limits) {
			names = allNames(b)
		}
		return append([]string{"order"}, names...)
	case 2:
		if limit.Kind != weir.Rolling || r.IntN(4) == 0 {
			return []string{limit.Name, "kind=" + kindWords[r.IntN(len(kindWords))], "cells=0"}
		}
		return []string{limit.Name, fmt.Sprintf("cells=%d", r.IntN(2)*randomCells(r))}
	case 3:
		if b.mode != weir.Partial && b.costs() {
			return []string{limit.Name, fmt.Sprintf("cost=%d", randomCost(r, limit.Max))}
		}
		return []string{limit.Name, "gap=" + spanText(randomGap(r, limit.Window))}
	case 4, 5:
		w := randomWindow(r, limit.Window, minWindow)
		return []string{limit.Name, "window=" + spanText(w), "gap=" + spanText(min(limit.MinInterval, w))}
	}
	return []string{limit.Name, fmt.Sprintf("max=%d", min(max(0, limit.Max+r.Int64N(9)-4), weir.MaxUnits))}
}

// randomMode returns the word of a mode that the limits allow.
func randomMode(r *rand.Rand, b *mutablePolicy) string {
	i := r.IntN(len(modeWords))
	if b.costs() && weir.Mode(i) == weir.Partial {
		return modeWords[0] // a fixed cost has no parts
	}
	return modeWords[i]
}

// costs reports whether a limit has a fixed cost.
func (b *mutablePolicy) costs() bool {
	return slices.ContainsFunc(b.limits, func(l weir.Limit) bool { return l.Cost > 0 })
}

// huge reports whether a Max is so large that sums may approach 2^53.
func (b *mutablePolicy) huge() bool {
	return slices.ContainsFunc(b.limits, func(l weir.Limit) bool { return l.Max > maxPlain })
}

func allNames(b *mutablePolicy) []string {
	var names []string
	for _, limit := range b.limits {
		names = append(names, limit.Name)
	}
	return names
}
