package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

const us = time.Microsecond

// maxPlain is the largest Max that is not huge: many grants of it stay below MaxUnits.
const maxPlain = 1 << 45

// dimensionNames are those of random policies, and values those of their keys. They are few,
// so that histories are shared, and hostile (R14).
var (
	dimensionNames = []string{"user", "ip", "tenant"}
	values         = []string{"a", "b", " ", "a\x00", "{a}", "a:b", "1:a", "a\nb", "\xff", "日"}
)

// scales are approximate lengths of the windows of one random policy.
var scales = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, time.Second, 5 * time.Second, time.Minute,
	10 * time.Minute, 10 * time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 300 * 24 * time.Hour,
}

// zones are time zones with changes of the clock of many kinds: by half an hour, at midnight,
// on other days, never, and a day that was left out.
var zones = []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu",
	"America/Havana", "Africa/Cairo", "America/Santiago", "Pacific/Apia", "Asia/Tehran"}

// randomPolicy returns a valid policy of one to four limits that the engine claims.
func randomPolicy(r *rand.Rand, c *Config) *mutablePolicy {
	for {
		if b := anyPolicy(r); c.permits(b) {
			return b
		}
	}
}

func anyPolicy(r *rand.Rand) *mutablePolicy {
	b := &mutablePolicy{name: "p", mode: weir.Mode(r.IntN(3))}
	scale := scales[r.IntN(len(scales))]
	huge := r.IntN(8) == 0
	kinds := []weir.Kind{weir.KindRolling} // mostly: rolling windows have more faults
	switch r.IntN(8) {
	case 0:
		kinds = []weir.Kind{weir.KindRolling, weir.KindFixed, weir.KindFixedFromFirst}
	case 1:
		kinds = []weir.Kind{weir.KindRolling, weir.KindBucket, weir.KindBucket}
	case 2:
		kinds = []weir.Kind{weir.KindRolling, weir.KindFixed, weir.KindFixedFromFirst, weir.KindBucket, weir.KindConcurrency}
	}
	blocks := r.IntN(5) == 0
	for i := range []int{1, 1, 2, 3, 4}[r.IntN(5)] {
		limit := weir.Limit{Name: fmt.Sprintf("l%d", i), By: randomDims(r), Max: randomMax(r, huge)}
		limit.Window = randomWindow(r, scale)
		if r.IntN(3) == 0 {
			limit.MinInterval = randomGap(r, limit.Window)
		}
		if blocks && r.IntN(3) > 0 {
			limit.Block = randomBlock(r, limit.Window)
		}
		limit.Kind = kinds[r.IntN(len(kinds))]
		switch cells := r.IntN(4) == 0; {
		case limit.Kind == weir.KindBucket:
			limit.Burst = randomBurst(r, limit)
		case limit.Kind == weir.KindFixed && r.IntN(2) == 0:
			limit.Period, limit.Zone = weir.Period(1+r.IntN(4)), zones[r.IntN(len(zones))]
			limit.Window, limit.Anchor = limit.Period.Length(), randomAnchor(r, limit.Period)
			limit.MinInterval = min(limit.MinInterval, limit.Window)
		case limit.Kind == weir.KindRolling && cells:
			limit.Cells = randomCells(r)
		}
		b.add(limit)
	}
	if b.mode != weir.Partial && r.IntN(5) == 0 {
		for i := range b.limits {
			b.limits[i].Cost = randomCost(r, b.limits[i].Max)
		}
	}
	return b
}

// randomBlock returns the length of a block: about a window, a part of it, or longer, and often
// short, so that more is decided than denied.
func randomBlock(r *rand.Rand, window time.Duration) time.Duration {
	d := window
	switch r.IntN(5) {
	case 0:
		d += time.Duration(r.IntN(3)-1) * us
	case 1:
		d = 1 + time.Duration(r.Int64N(2*int64(window)))
	case 2:
		d = weir.MinWindow
	default:
		d = window / time.Duration(2+r.IntN(20))
	}
	return min(max(d.Truncate(us), weir.MinWindow), weir.MaxWindow)
}

// valid reports whether the policy with its present numbers is valid.
func (b *mutablePolicy) valid() bool {
	_, err := b.policy("").Compile()
	return err == nil
}

// randomBurst returns the capacity of a bucket: mostly a few units, or 0 for Max.
func randomBurst(r *rand.Rand, limit weir.Limit) int64 {
	switch r.IntN(6) {
	case 0:
		return 0
	case 1:
		return max(1, limit.Max/2)
	case 2:
		return limit.Max + r.Int64N(40)
	case 3:
		return nearPower(r)
	}
	return 1 + r.Int64N(7)
}

// randomAnchor returns an anchor of the period; 0 is its default.
func randomAnchor(r *rand.Rand, p weir.Period) int {
	switch p {
	case weir.Week:
		return r.IntN(8)
	case weir.Month:
		return []int{0, 1, 14, 28, 29, 30, 31}[r.IntN(7)]
	}
	return 0
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

// randomDims returns dimensions in the order of dimensionNames. A change may reorder them (R12).
func randomDims(r *rand.Rand) []string {
	if r.IntN(3) == 0 {
		return []string{dimensionNames[r.IntN(len(dimensionNames))]} // the most frequent case, for which engines may have fast paths
	}
	var by []string
	for _, dim := range dimensionNames {
		if r.IntN(3) == 0 {
			by = append(by, dim)
		}
	}
	return by
}

func randomMax(r *rand.Rand, huge bool) int64 {
	switch {
	case huge:
		return weir.MaxUnits - r.Int64N(1<<uint(r.IntN(51)))
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

func randomWindow(r *rand.Rand, scale time.Duration) time.Duration {
	w := scale
	switch r.IntN(4) {
	case 0:
		w = scale/2 + time.Duration(r.Int64N(int64(scale)))
	case 1:
		w = scale + time.Duration(r.IntN(7)-3)*us
	case 2:
		w = scale / time.Duration(1+r.IntN(4))
	}
	return min(max(w.Truncate(us), weir.MinWindow), weir.MaxWindow)
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
		for _, dim := range dimensionNames {
			keys[i] = append(keys[i], keyPart{dim, few[r.IntN(len(few))]})
		}
	}
	return keys
}

// randomChange returns the words of a change of b (R12) that leaves it valid.
func randomChange(r *rand.Rand, b *mutablePolicy, c *Config) []string {
	for {
		if words := anyChange(r, b); b.allows(words) {
			return words
		}
	}
}

// allows reports whether the words of a change leave b valid.
func (b *mutablePolicy) allows(words []string) bool {
	changed := b.clone()
	return changed.change(words) == nil && changed.valid()
}

// undo returns the words of a change after which the limit of that name is as it is now.
func (b *mutablePolicy) undo(name string) []string {
	limit, words := b.limits[b.index(name)], []string{name}
	must, may := limitFields(&limit)
	for _, f := range append(must, may...) {
		if f.name != "by" {
			words = append(words, f.text())
		}
	}
	return words
}

func anyChange(r *rand.Rand, b *mutablePolicy) []string {
	limit := b.limits[r.IntN(len(b.limits))]
	if len(limit.By) > 1 && r.IntN(4) == 0 {
		by := slices.Clone(limit.By)
		r.Shuffle(len(by), func(i, j int) { by[i], by[j] = by[j], by[i] })
		return []string{limit.Name, "by=" + strings.Join(by, ",")}
	}
	if limit.Block > 0 && r.IntN(4) == 0 || r.IntN(32) == 0 {
		return []string{limit.Name, "block=" + spanText(time.Duration(r.IntN(3))*randomBlock(r, limit.Window)/2)}
	}
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
		if limit.Kind != weir.KindRolling || r.IntN(4) == 0 {
			words := []string{limit.Name, "kind=" + kindWords[r.IntN(len(kindWords))], "cells=0", "burst=0", "period=none", "zone=", "anchor=0"}
			if r.IntN(3) == 0 {
				p := weir.Period(1 + r.IntN(4))
				words = []string{limit.Name, "kind=fixed", "cells=0", "burst=0", "period=" + periodWords[p],
					"window=" + spanText(p.Length()), "interval=0s", "zone=" + zones[r.IntN(len(zones))], "anchor=0"}
			}
			return words
		}
		return []string{limit.Name, fmt.Sprintf("cells=%d", r.IntN(2)*randomCells(r))}
	case 3:
		if b.mode != weir.Partial && (b.costs() || r.IntN(4) == 0) { // a policy can get its first cost (R12)
			return []string{limit.Name, fmt.Sprintf("cost=%d", randomCost(r, limit.Max))}
		}
		return []string{limit.Name, "interval=" + spanText(randomGap(r, limit.Window))}
	case 4, 5:
		if limit.Kind == weir.KindBucket && r.IntN(2) == 0 {
			return []string{limit.Name, fmt.Sprintf("burst=%d", randomBurst(r, limit))}
		}
		w := randomWindow(r, limit.Window)
		return []string{limit.Name, "window=" + spanText(w), "interval=" + spanText(min(limit.MinInterval, w))}
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

// huge reports whether a Max is so large that sums may pass MaxUnits.
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
