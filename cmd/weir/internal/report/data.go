package report

import (
	"strconv"
	"strings"
)

// viewData is the data of one view for the script. It has no keys and no names from logs,
// except the policy lines of the candidates.
type viewData struct {
	Per        string       `json:"per"`
	Limit      int64        `json:"limit"`
	Word       string       `json:"word"`
	Requests   int64        `json:"requests"`
	Keys       int64        `json:"keys"`
	Rest       string       `json:"rest"` // the policy line without its limit
	Low        int64        `json:"low"`  // the greatest peak within the limit; 0 = unknown
	High       int64        `json:"high"` // the least peak above it; 0 = unknown
	Apart      bool         `json:"apart"`
	Bins       []Bin        `json:"bins"`
	Candidates []Candidate  `json:"candidates"`
	Timeline   timelineData `json:"timeline"`
}

type timelineData struct {
	From    int64   `json:"from"` // milliseconds since 1970
	Step    int64   `json:"step"` // milliseconds
	Allowed []int64 `json:"allowed"`
	Denied  []int64 `json:"denied"`
}

// newViewData returns the data of a view, with timelines of at most steps steps.
func newViewData(v *View, steps int) viewData {
	d := viewData{
		Per: shown(v.Per), Limit: v.Limit, Word: shown(v.LimitWord), Requests: v.Requests, Keys: v.Keys,
		Low: v.Low, High: v.High, Apart: v.Apart, Bins: bars(v.Peaks), Candidates: []Candidate{},
		Timeline: newTimelineData(&v.Timeline, steps),
	}
	all := v.Candidates
	if len(all) == 0 && v.Limit > 0 {
		all = []Candidate{{Limit: v.Limit, Denied: v.Denied, KeysDenied: v.KeysDenied}}
	}
	for _, c := range all {
		c.Series = merge(c.Series, steps)
		d.Candidates = append(d.Candidates, c)
	}
	if rest, ok := strings.CutPrefix(v.Line, strconv.FormatInt(v.Limit, 10)+" "); ok {
		d.Rest = sentence(rest)
	}
	return d
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

// newTimelineData returns a timeline of at most most steps.
func newTimelineData(t *Timeline, most int) timelineData {
	per := max(1, (len(t.Allowed)+most-1)/most)
	return timelineData{t.From.UnixMilli(), t.Step.Milliseconds() * int64(per), merge(t.Allowed, most), merge(t.Denied, most)}
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

// merge adds neighbouring numbers until there are at most n.
func merge(series []int64, n int) []int64 {
	per := (len(series) + n - 1) / n
	if per <= 1 {
		return series
	}
	out := make([]int64, 0, n)
	for i := 0; i < len(series); i += per {
		var sum int64
		for _, x := range series[i:min(i+per, len(series))] {
			sum += x
		}
		out = append(out, sum)
	}
	return out
}
