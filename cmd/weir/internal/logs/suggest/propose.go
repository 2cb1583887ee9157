package suggest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/policy"
)

const (
	maxCandidates = 30
	caught        = 0.95 // least share of the scripts' excess that a suggestion denies
)

// sortedOnce returns the numbers in order, each once.
func sortedOnce[T cmp.Ordered](all []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// candidates returns round numbers around the peaks.
func (m *measured) candidates() []int64 {
	from, to := percentile(m.peaks, 0.5), largest(m.peaks)
	all := roundFrom(max(1, from/2), min(to+to/4, weir.MaxUnits))
	for level := len(roundness) + 1; level > 0 && len(all) > maxCandidates; level-- {
		all = slices.DeleteFunc(all, func(n int64) bool { return coarseness(n) >= level })
	}
	return all[max(0, len(all)-maxCandidates):]
}

// choices returns the limits among which the suggestion is chosen, ascending: from the
// share of ordinary keys to spare, up to four times their largest peak.
func (m *measured) choices(o *Options) []int64 {
	peak := max(1, largest(m.ordinary))
	if len(m.ordinary) == 0 {
		peak = max(1, largest(m.peaks))
	}
	least := max(1, percentile(m.ordinary, o.Spare), m.crowd)
	most := min(4*peak+1, weir.MaxUnits)
	all := append(roundFrom(least, min(peak+peak/2, most)), least, peak)
	for _, n := range roundFrom(peak+peak/2, most) {
		if coarseness(n) < len(roundness) {
			all = append(all, n)
		}
	}
	return sortedOnce(append(all, m.gaps(peak, most)...))
}

const maxGaps = 10

// gaps returns the peaks of from … to below the widest gaps, at most maxGaps. The width of a gap is
// the ratio of the peaks beside it. The gap above the largest peak is the widest.
func (m *measured) gaps(from, to int64) (all []int64) {
	var at []int
	for i, p := range m.peaks {
		if from <= p.Peak && p.Peak <= to {
			at = append(at, i)
		}
	}
	ratio := func(i int) float64 {
		if i+1 == len(m.peaks) {
			return math.Inf(1)
		}
		return float64(m.peaks[i+1].Peak) / float64(m.peaks[i].Peak)
	}
	slices.SortStableFunc(at, func(i, j int) int { return cmp.Compare(ratio(j), ratio(i)) })
	for _, i := range at[:min(len(at), maxGaps)] {
		all = append(all, m.peaks[i].Peak)
	}
	return all
}

// effectOf returns the effect of a limit.
func effectOf(effects []effect, limit int64) *effect {
	i, _ := slices.BinarySearchFunc(effects, limit,
		func(e effect, limit int64) int { return cmp.Compare(e.Limit, limit) })
	return &effects[i]
}

// choose returns the suggested limit. With scripts it lies in the widest gap at or above the peaks
// of ordinary keys, near the lower side. It must deny nearly all requests that scripts send beyond
// these peaks. Otherwise the limit spares the share of the keys in Options.
func (m *measured) choose(effects []effect, r *Result, o *Options) Suggestion {
	choices := m.choices(o)
	for len(choices) > 1 {
		denied := effectOf(effects, choices[0]).ordinary()
		if o.spares(denied, r.Requests) {
			break
		}
		choices = choices[1:]
	}
	excess := effectOf(effects, choices[0]).scripts
	switch {
	case len(m.ordinary) == 0, r.Keys < fewKeys, r.Requests < fewRequests:
		return m.withHeadroom(largest(m.peaks), Few)
	case excess == 0:
		return m.withHeadroom(m.leastSparing(effects, r, o), Spare)
	}
	most := choices[0]
	for _, limit := range choices {
		if float64(effectOf(effects, limit).scripts) < caught*float64(excess) {
			break
		}
		most = limit
	}
	floor := choices[0]
	if gaps := m.gaps(max(1, largest(m.ordinary)), most); len(gaps) > 0 {
		floor = gaps[0]
	}
	high := m.next(floor)
	if float64(high) < gapRatio*float64(floor) {
		return m.withHeadroom(m.leastSparing(effects, r, o), Spare)
	}
	// headroom, on the near side of the gap
	near := min(floor+max(1, floor/2), max(floor+1, (floor+high)/2))
	s := Suggestion{floor: floor, Basis: Gap}
	s.Limit = roundAbove(floor+1, max(floor+1, min(near, most)))
	if m.isContinuous(s.Limit) {
		return m.withHeadroom(m.leastSparing(effects, r, o), Spare)
	}
	return s
}

// spares reports whether a limit denies few ordinary requests: at most half of the share 1 - Spare.
func (o *Options) spares(denied, requests int64) bool {
	return float64(denied) <= (1-o.Spare)/2*float64(requests)
}

// chooseInAll returns the suggested limit for all requests together. Hours take the place of keys:
// if few hours have far more requests than most, the limit lies between.
func (r *requests) chooseInAll(m *measured) Suggestion {
	tile := max(hour, m.window)
	hours := histogram{}
	number := 0
	for rest := r.requestsOf(0, nil); len(rest) > 0; number++ {
		begin := rest[0].at / tile
		end := slices.IndexFunc(rest, func(r request) bool { return r.at/tile != begin })
		if end < 0 {
			end = len(rest)
		}
		hours[fullestUnits(rest[:end], m.window)]++ // without the end of the hour before
		rest = rest[end:]
	}
	peaks := hours.peaks()
	base := basePeak(peaks, 0, true)
	if number < fewKeys || base == largest(peaks) {
		return m.withHeadroom(largest(peaks), Few)
	}
	s := Suggestion{floor: base, Basis: Gap}
	for _, p := range peaks {
		if p.Peak > base {
			s.hours += p.Keys
		}
	}
	s.others = int64(number) - s.hours
	s.Limit = roundAbove(base+1, base+max(1, base/2))
	return s
}

// next returns the least peak above another one, or the bound of a limit.
func (m *measured) next(peak int64) int64 {
	for _, p := range m.peaks {
		if p.Peak > peak {
			return p.Peak
		}
	}
	return weir.MaxUnits
}

// withHeadroom returns a limit with headroom above a peak.
func (m *measured) withHeadroom(peak int64, basis Basis) Suggestion {
	peak = min(max(1, peak), weir.MaxUnits-1)
	limit := roundAbove(peak+1, min(peak+max(1, peak/2), weir.MaxUnits))
	return Suggestion{Candidate: Candidate{Limit: limit}, floor: peak, Basis: basis}
}

// leastSparing returns the least decided limit that spares the share of all keys except batches,
// half of that share of all requests, and crowds.
func (m *measured) leastSparing(effects []effect, r *Result, o *Options) int64 {
	peaks := m.peaks
	if m.batch > 0 {
		peaks = m.ordinary
	}
	least := max(percentile(peaks, o.Spare), m.crowd)
	for i := range effects {
		e := &effects[i]
		if e.Limit >= least && o.spares(e.RequestsDenied-e.batch, r.Requests) {
			return min(e.Limit, largest(peaks))
		}
	}
	return largest(peaks)
}

// isContinuous reports whether the peaks above a limit continue those below it: many lie close
// above the limit, and no gap is between. Steady scripts are a group of their own in any place.
func (m *measured) isContinuous(limit int64) bool {
	low := int64(0)   // the largest peak up to the limit
	high := int64(0)  // the least peak above it
	above := int64(0) // keys above the limit
	near := int64(0)  // keys above the limit, up to twice of it
	for _, p := range m.others {
		switch {
		case p.Peak <= limit:
			low = p.Peak
			continue
		case high == 0:
			high = p.Peak
		}
		above += p.Keys
		if p.Peak <= 2*limit {
			near += p.Keys
		}
	}
	return high <= max(low+1, low+low/7) && near >= 10 && near*3 >= above
}

// Fewer are too few to tell ordinary keys from others.
const (
	fewKeys     = 10
	fewRequests = 200
)

// roundAbove returns a round number of least … most, a quarter above least if possible.
func roundAbove(least, most int64) int64 {
	target := least + (least+3)/4
	return slices.MinFunc(append(roundFrom(least, most), least), func(a, b int64) int {
		return cmp.Or(coarseness(a)-coarseness(b), cmp.Compare(abs(a-target), abs(b-target)))
	})
}

// propose returns a window with its candidates and the whole suggestion.
func (m *measured) propose(effects []effect, suggested Suggestion, d *detail, r *Result, o *Options) Window {
	of := func(share float64) int64 { return percentile(m.peaks, share) }
	w := Window{
		Window: time.Duration(m.window) * time.Microsecond,
		Peaks: Peaks{
			P50:  of(0.5),
			P90:  of(0.9),
			P99:  of(0.99),
			P999: of(0.999),
			Max:  of(1),
		},
		Histogram:  m.peaks,
		Candidates: []Candidate{},
		Suggested:  suggested,
		Timeline:   d.timeline(),
		Denials:    map[int64][]int64{suggested.Limit: d.denied},
	}
	s := &w.Suggested
	limit := weir.Limit{Max: s.Limit, Window: w.Window, By: r.Dimensions}
	line := policy.Definition{Limits: []weir.Limit{limit}, Units: []string{r.Unit}}
	s.Line = line.Sentence(0)
	s.Candidate = d.Candidate
	w.Length = duration.Format(w.Window)
	for _, p := range m.peaks {
		if p.Peak <= s.Limit {
			s.Low = p.Peak
		} else if s.High == 0 {
			s.High = p.Peak
		}
	}
	limits := o.Limits
	if limits == nil {
		limits = sortedOnce(append(m.candidates(), s.Limit))
	}
	for _, limit := range limits {
		e := &d.effect
		if limit != s.Limit {
			e = effectOf(effects, limit)
		}
		w.Candidates = append(w.Candidates, e.Candidate)
		w.Denials[limit] = e.denied
	}
	w.WithoutDay = m.withoutDays(s.Limit, r)
	s.Why = explain(&w, r, o)
	return w
}

// withoutDays returns the suggestion without each day.
func (m *measured) withoutDays(suggested int64, r *Result) (all []WithoutDay) {
	if len(r.Days) < 2 {
		return nil
	}
	for i, day := range r.Days {
		limit := suggested
		if peak := m.peakWithout(i); peak < largest(m.ordinary) && peak > 0 {
			limit = min(limit, roundAbove(peak, peak+max(1, peak/2)))
		}
		all = append(all, WithoutDay{day.Date, limit})
	}
	return all
}

// explain returns the reason of a suggestion as one sentence.
func explain(w *Window, r *Result, o *Options) string {
	span := answer.Span(w.Window)
	s := &w.Suggested
	var b strings.Builder
	switch {
	case s.hours > 0:
		fmt.Fprintf(&b, "%s at most %s in the fullest %s, and %s more",
			counted(s.others, "hour has", "hours have"),
			grouped(s.floor), span, counted(s.hours, "has", "have"))
	case s.Basis == Gap:
		stand, their := "keys stand", "their"
		if s.KeysDenied == 1 {
			stand, their = "key stands", "its"
		}
		fmt.Fprintf(&b, "%s %s apart with %s in %s fullest %s, and the others have at most %s",
			grouped(s.KeysDenied), stand, fromTo(s.High, w.Peaks.Max), their, span, grouped(s.Low))
	case s.Basis == Spare:
		fmt.Fprintf(&b,
			"no keys stand apart per %s, so the limit spares at least %s%% of them, "+
				"which have at most %s, and adds headroom",
			span, percentText(o.Spare), grouped(s.floor))
	default:
		fmt.Fprintf(&b,
			"%s, so the limit is the largest peak, %s, with headroom; try it on a longer log",
			whyTooLittle(r), grouped(s.floor))
	}
	var changed []string
	for _, d := range w.WithoutDay {
		if d.Limit*3 < s.Limit*2 {
			changed = append(changed, grouped(d.Limit)+" without "+d.Date)
		}
	}
	if len(changed) > 0 && s.Basis != Few {
		fmt.Fprintf(&b, "; one day decides: it would be %s", strings.Join(changed, " or "))
	}
	if span := r.To.Sub(r.From); span < w.Window && s.Basis != Few {
		fmt.Fprintf(&b, "; the log spans only %v, less than one window", span.Round(time.Second))
	}
	return b.String()
}

// whyTooLittle returns the reason why a log has too little data.
func whyTooLittle(r *Result) string {
	switch {
	case r.Keys == 1:
		return "the log has one key, and nothing to compare it with"
	case r.Keys < fewKeys:
		return fmt.Sprintf("the log has only %d keys", r.Keys)
	case r.Requests < fewRequests:
		return fmt.Sprintf("the log has only %d requests", r.Requests)
	}
	return "all keys are steady and heavy, so no ordinary ones stand out"
}

// fromTo returns a range of numbers.
func fromTo(from, to int64) string {
	if from == to {
		return grouped(from)
	}
	return grouped(from) + " to " + grouped(to)
}

// percentText returns a share such as 99.9.
func percentText(share float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", share*100), "0"), ".")
}

// roundness are the leading digits of round numbers, the roundest first.
var roundness = [][]int64{{10, 20, 50}, {30, 15, 25, 40, 60, 80}, {12}}

// coarseness returns 0 for the roundest numbers, such as 50, and more for others: 3 for
// other numbers of two digits with zeros, and 4 for the rest.
func coarseness(n int64) int {
	for n >= 100 && n%10 == 0 {
		n /= 10
	}
	if n < 10 {
		n *= 10
	}
	for level, digits := range roundness {
		if slices.Contains(digits, n) {
			return level
		}
	}
	if n < 100 {
		return len(roundness)
	}
	return len(roundness) + 1
}

// roundFrom returns the numbers of two digits with zeros in from … to, ascending. Below 100
// they are all whole numbers.
func roundFrom(from, to int64) (all []int64) {
	for n := max(1, from); n <= to; {
		unit := int64(1)
		for n/unit >= 100 {
			unit *= 10
		}
		n = (n + unit - 1) / unit * unit
		if n <= to {
			all = append(all, n)
		}
		n += unit
	}
	return all
}

func abs(n int64) int64 { return max(n, -n) }
