package report

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// forScript returns a view as the script reads it, with timelines of at most steps steps.
func (v View) forScript(steps int) View {
	v.Per, v.LimitWord, v.Peaks = shown(v.Per), shown(v.LimitWord), bars(v.Peaks)
	if rest, ok := strings.CutPrefix(v.Line, strconv.FormatInt(v.Limit, 10)+" "); ok {
		v.Rest = sentence(rest)
	}
	v.Candidates = append([]Candidate{}, v.Candidates...)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.Series = Merge(c.Series, steps)
	}
	t := &v.Timeline
	t.Width *= time.Duration(max(1, (len(t.Allowed)+steps-1)/steps))
	t.Allowed, t.Denied = Merge(t.Allowed, steps), Merge(t.Denied, steps)
	return v
}

// stepsOf returns the most steps of each timeline, so that those of all candidates have at
// most maxNumbers numbers.
func stepsOf(views []View) int {
	candidates := 0
	for i := range views {
		candidates += len(views[i].Candidates)
	}
	return max(1, min(maxSteps, maxNumbers/max(1, candidates)))
}

// edges are where bars begin in a decade, at about equal distances on a logarithmic scale.
var edges = []int64{10, 13, 18, 24, 32, 42, 56, 75}

// bars groups bins into at most eight bars in a decade. Peaks below 10 have a bar each.
func bars(bins []Bin) []Bin {
	all := []Bin{}
	for _, b := range bins {
		from, to := b.From, b.From
		for unit := int64(1); b.From >= 10*unit; unit *= 10 {
			i := len(edges) - 1
			for ; edges[i]*unit > b.From && i > 0; i-- {
			}
			from, to = edges[i]*unit, 100*unit-1
			if i+1 < len(edges) {
				to = edges[i+1]*unit - 1
			}
		}
		if last := len(all) - 1; last >= 0 && all[last].From == from {
			all[last].Keys += b.Keys
			continue
		}
		all = append(all, Bin{from, to, b.Keys})
	}
	return all
}

// Merge adds neighbouring numbers until there are at most n.
func Merge(series []int64, n int) []int64 {
	per := (len(series) + n - 1) / n
	if per <= 1 {
		return series
	}
	out := make([]int64, 0, n)
	for part := range slices.Chunk(series, per) {
		var sum int64
		for _, x := range part {
			sum += x
		}
		out = append(out, sum)
	}
	return out
}
