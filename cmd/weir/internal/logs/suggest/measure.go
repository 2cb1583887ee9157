package suggest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// measured is a window with the peaks of all keys.
type measured struct {
	window   int64       // microseconds
	peakOf   []int64     // by key
	peaks    []PeakCount // all keys
	ordinary []PeakCount // keys that a limit must spare: no scripts and no batches
	others   []PeakCount // keys that are no scripts that a rule of time shows
	crowd    int64       // the largest peak of crowds; 0 = none
	batch    int64       // the largest peak of batches; 0 = none

	// days has the largest peak of an ordinary key on each day, in units. The first number is that
	// of the days before the calendar.
	days []int64
}

// readAll reads all requests once. It returns the profile of every key, and its peak in every
// window, and counts days.
func (r *requests) readAll(
	windows []time.Duration, days *calendar,
) (keys []profile, all []*measured) {
	keys = make([]profile, r.keys.Len())
	for _, w := range windows {
		all = append(all, &measured{window: w.Microseconds(), peakOf: make([]int64, len(keys))})
	}
	r.hours = hourRecord{}
	r.eachKey(func(key uint32, requests []request) {
		days.count(requests)
		r.hours.add(key, requests)
		p := &keys[key]
		*p = profileOf(requests)
		for _, m := range all {
			scale := slices.Index(scales[:], m.window)
			if scale >= 0 && !r.weighted { // measured already
				m.peakOf[key] = int64(p.peaks[scale])
			} else {
				m.peakOf[key] = fullestUnits(requests, m.window)
			}
		}
	})
	return keys, all
}

// measure completes the windows with the peaks by classes of keys.
func (r *requests) measure(all []*measured, days *calendar, keys []profile) {
	for _, m := range all {
		every := histogram{}
		ordinary := histogram{}
		others := histogram{}
		for key, peak := range m.peakOf {
			class := keys[key].class
			every[peak]++
			if !class.isTimed() && class != Batch {
				others[peak]++
			}
			if class.isSpared() {
				ordinary[peak]++
			}
			switch class {
			case Crowd:
				m.crowd = max(m.crowd, peak)
			case Batch:
				m.batch = max(m.batch, peak)
			}
		}
		m.peaks = every.peaks()
		m.ordinary = ordinary.peaks()
		m.others = others.peaks()
		r.measureDays(m, days, keys)
	}
}

// measureDays sets the peaks of ordinary keys by day. It reads the keys in the order of their peaks,
// and ends as soon as the next peak is too small to be the largest of a day.
func (r *requests) measureDays(m *measured, days *calendar, keys []profile) {
	m.days = make([]int64, len(days.days)+1)
	if len(days.days) < 2 {
		return // nothing to compare
	}
	var spared []uint32
	for key := range keys {
		if keys[key].class.isSpared() {
			spared = append(spared, uint32(key))
		}
	}
	slices.SortFunc(spared, func(a, b uint32) int {
		return cmp.Compare(m.peakOf[b], m.peakOf[a])
	})
	var buffer []request
	for _, key := range spared {
		if m.peakOf[key] <= days.least(m.days) {
			return
		}
		buffer = r.requestsOf(key, buffer[:0])
		slide(buffer, m.window, func(last request, units int64) {
			day := days.day(last.at)
			m.days[day+1] = max(m.days[day+1], units)
		})
	}
}

// slide calls visit with each of sorted requests and the units in the window that ends with it (R3).
func slide(requests []request, window int64, visit func(last request, units int64)) {
	first := 0
	units := int64(0)
	for _, r := range requests {
		for requests[first].at <= r.at-window {
			units -= requests[first].n
			first++
		}
		units += r.n
		visit(r, units)
	}
}

// fullestUnits returns the largest number of units of sorted requests in any window.
func fullestUnits(requests []request, window int64) (most int64) {
	slide(requests, window, func(_ request, units int64) { most = max(most, units) })
	return most
}

// peakWithout returns the largest peak of ordinary keys on all days but one. A peak belongs to the
// day of its last request.
func (m *measured) peakWithout(day int) (peak int64) {
	for i, n := range m.days {
		if i != day+1 {
			peak = max(peak, n)
		}
	}
	return peak
}

// effect is the exact effect of one limit of one window on all keys.
type effect struct {
	Candidate
	window int64
	slots  *replay.Slots // for all requests
	denied []int64       // requests by slot

	// Denied requests of scripts and of batches, and the number of these keys.
	scripts, scriptKeys int64
	batch, batchKeys    int64
	bySize              int64 // those of scriptKeys that only size shows, of their hour or of all
}

func newEffect(window, limit int64, slots *replay.Slots) effect {
	return effect{
		Candidate: Candidate{Limit: limit},
		window:    window,
		slots:     slots,
		denied:    make([]int64, slots.Index(slots.To)+1),
	}
}

// ordinary returns the denied requests of keys that are no scripts and no batches.
func (e *effect) ordinary() int64 { return e.RequestsDenied - e.scripts - e.batch }

// count counts denied requests of a key.
func (e *effect) count(class Class, n int64) {
	switch {
	case class.isScript():
		e.scripts += n
		e.scriptKeys++
		if class == Apart || class == Hour {
			e.bySize++
		}
	case class == Batch:
		e.batch += n
		e.batchKeys++
	}
}

// add adds the effect on one key that has a larger peak, so the limit denies at least one of
// its requests. It returns the number of denied requests and the least instant of them.
func (e *effect) add(h *history, requests []request) (n, first int64) {
	h.reset(e.window, e.Limit)
	first = math.MaxInt64
	for _, r := range requests {
		if !h.allow(r) {
			n++
			first = min(first, r.at)
			e.denied[e.slots.Index(r.at)]++
		}
	}
	e.RequestsDenied += n
	e.KeysDenied++
	return n, first
}

// timeline returns the counts of all requests, with those that the limit denies.
func (e *effect) timeline() replay.Timeline {
	t := e.slots.Timeline()
	for i, n := range e.denied {
		t.Allowed[i] -= n
	}
	t.Denied = e.denied
	return t
}

// decideAll returns the effects of limits for each window, ascending: of the candidates, and
// of those among which the suggestion is chosen.
func (r *requests) decideAll(windows []*measured, o *Options, keys []profile) [][]effect {
	all := make([][]effect, len(windows))
	for i, m := range windows {
		for _, limit := range sortedOnce(slices.Concat(o.Limits, m.choices(o), m.candidates())) {
			all[i] = append(all[i], newEffect(m.window, limit, &r.slots))
		}
	}
	var h history
	var buffer []request
	for key := range keys {
		buffer = buffer[:0]
		for i, m := range windows {
			peak := m.peakOf[key]
			for j := range all[i] {
				e := &all[i][j]
				if e.Limit >= peak {
					break // no higher limit denies any of them
				}
				if len(buffer) == 0 {
					buffer = r.requestsOf(uint32(key), buffer)
				}
				n, _ := e.add(&h, buffer)
				e.count(keys[key].class, n)
			}
		}
	}
	return all
}

// request is one request of a key.
type request struct {
	at int64 // microseconds since 1970
	n  int64 // units
}

// history decides the sorted requests of one key by one limit, as the engines do.
type history struct {
	window int64 // microseconds
	limit  int64 // units
	grants []request
	head   int   // the first grant that counts
	used   int64 // units of the grants from head on
}

// reset forgets all grants and sets a limit.
func (h *history) reset(window, limit int64) {
	*h = history{window: window, limit: limit, grants: h.grants[:0]}
}

// allow decides a request and reports whether it was granted.
func (h *history) allow(r request) bool {
	if r.n == 0 {
		return true // a peek (R4)
	}
	for h.head < len(h.grants) && h.grants[h.head].at <= r.at-h.window {
		h.used -= h.grants[h.head].n
		h.head++
	}
	if r.n > h.limit-h.used {
		return false
	}
	h.grants = append(h.grants, r)
	h.used += r.n
	return true
}

// detail is the effect of one limit of one window on keys and over time.
type detail struct {
	effect
	top, heaviest ranking
}

// describe returns the details of limits, for each window of one.
func (r *requests) describe(windows []*measured, choices []Suggestion, keys []profile) []*detail {
	all := make([]*detail, len(windows))
	for i, m := range windows {
		all[i] = &detail{
			effect:   newEffect(m.window, choices[i].Limit, &r.slots),
			top:      ranking{order: byDenied},
			heaviest: ranking{order: byPeak},
		}
	}
	var h history
	var buffer []request
	for key := range keys {
		buffer = buffer[:0]
		for i, d := range all {
			k := keyEffect{
				key:      uint32(key),
				class:    keys[key].class,
				peak:     windows[i].peakOf[key],
				requests: int64(keys[key].requests),
			}
			if k.peak > d.Limit {
				if len(buffer) == 0 {
					buffer = r.requestsOf(k.key, buffer)
				}
				k.denied, k.first = d.add(&h, buffer)
				d.count(k.class, k.denied)
				d.top.add(k)
			}
			d.heaviest.add(k)
		}
	}
	return all
}

// keyEffect is the effect of one limit on one key.
type keyEffect struct {
	key                    uint32
	class                  Class
	peak, requests, denied int64
	first                  int64 // instant of the first denial
}

// ranking keeps the MaxTop first of many keys.
type ranking struct {
	order func(a, b keyEffect) int
	all   []keyEffect
	isCut bool // the first MaxTop are sorted, and no key behind them can join
}

// byDenied orders the keys with the most denials first.
func byDenied(a, b keyEffect) int {
	return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(b.peak, a.peak),
		cmp.Compare(a.key, b.key))
}

// byPeak orders the keys with the largest peaks first.
func byPeak(a, b keyEffect) int {
	return cmp.Or(cmp.Compare(b.peak, a.peak), cmp.Compare(b.requests, a.requests),
		cmp.Compare(a.key, b.key))
}

// add adds a key.
func (r *ranking) add(e keyEffect) {
	if r.isCut && r.order(e, r.all[MaxTop-1]) > 0 {
		return
	}
	r.all = append(r.all, e)
	if len(r.all) >= 8*MaxTop {
		r.cut()
	}
}

// cut sorts the keys and drops those behind the first MaxTop.
func (r *ranking) cut() {
	slices.SortFunc(r.all, r.order)
	r.all = r.all[:min(len(r.all), MaxTop)]
	r.isCut = len(r.all) == MaxTop
}

// result returns the keys with their names.
func (r *ranking) result(named func(key uint32) replay.Key) []Key {
	r.cut()
	all := []Key{}
	for _, e := range r.all {
		k := Key{
			Key:      named(e.key),
			Class:    e.class,
			Peak:     e.peak,
			Requests: e.requests,
			Denied:   e.denied,
		}
		if e.denied > 0 {
			k.FirstDenied = time.UnixMicro(e.first).UTC()
		}
		all = append(all, k)
	}
	return all
}
