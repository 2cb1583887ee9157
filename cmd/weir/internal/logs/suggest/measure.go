package suggest

import "math"

// bits is a set of keys by number.
type bits []uint64

func (b bits) has(key uint32) bool { return b[key/64]>>(key%64)&1 != 0 }
func (b bits) set(key uint32)      { b[key/64] |= 1 << (key % 64) }

// measured is a window with the peaks of all keys.
type measured struct {
	window   int64       // microseconds
	peaks    []PeakCount // all keys
	ordinary []PeakCount // keys that are no scripts
	uneven   []PeakCount // keys that are no steady scripts
	without  []int64     // the largest of ordinary without each day

	counts struct{ ordinary, steady, other histogram } // by the kind of a key: scripts are steady or other
	days   []histogram                                 // by day: how ordinary would differ without it
}

// measure computes the peak of every key in every window.
func (r *requests) measure(windows []int64, days *calendar, scripts, steady bits) (all []*measured) {
	for _, w := range windows {
		m := &measured{window: w}
		m.counts.ordinary, m.counts.steady, m.counts.other = histogram{}, histogram{}, histogram{}
		for range days.names {
			m.days = append(m.days, histogram{})
		}
		all = append(all, m)
	}
	var h history
	r.eachKey(func(key uint32, requests []request) {
		for _, m := range all {
			switch {
			case !scripts.has(key):
				m.add(&h, requests, days)
			case steady.has(key):
				m.counts.steady[h.peak(m.window, requests)]++
			default:
				m.counts.other[h.peak(m.window, requests)]++
			}
		}
	})
	for _, m := range all {
		uneven := m.counts.ordinary.plus(m.counts.other)
		m.ordinary, m.uneven, m.peaks = m.counts.ordinary.peaks(), uneven.peaks(), uneven.plus(m.counts.steady).peaks()
		for _, d := range m.days {
			m.without = append(m.without, largest(m.counts.ordinary.plus(d).peaks()))
		}
	}
	return all
}

// add adds one ordinary key.
func (m *measured) add(h *history, requests []request, days *calendar) {
	h.reset(m.window, math.MaxInt64)
	var best dayPeaks
	day := -1
	for _, r := range requests {
		h.allow(r)
		day = days.day(r.at, day)
		best.add(day, h.used)
	}
	m.counts.ordinary[h.most]++
	if best.day >= 0 && best.peak > best.other {
		m.days[best.day][best.peak]--
		if best.other > 0 {
			m.days[best.day][best.other]++
		}
	}
}

// largest returns the last of sorted peaks, 0 without any.
func largest(all []PeakCount) int64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Peak
}

// dayPeaks is the largest peak of a key, and the largest of the other days. The other one
// is 0 if the key has no other day.
type dayPeaks struct {
	day         int
	peak, other int64
}

// add notes the units that count at a request of a day.
func (p *dayPeaks) add(day int, used int64) {
	switch {
	case day == p.day || p.peak == 0:
		p.day, p.peak = day, max(p.peak, used)
	case used > p.peak:
		*p = dayPeaks{day, used, p.peak}
	default:
		p.other = max(p.other, used)
	}
}

// effect is the exact effect of one limit on all keys.
type effect struct {
	Candidate
	ordinary int64 // denied requests of keys that are no scripts
	series   series
}

func newEffect(limit int64, r *requests) effect {
	return effect{Candidate: Candidate{Limit: limit}, series: newSeries(&r.slots)}
}

// scripts returns the denied requests of scripts.
func (e *effect) scripts() int64 { return e.RequestsDenied - e.ordinary }

// add adds the effect on one key that has a larger peak. It returns the number of denied
// requests and the least instant of them.
func (e *effect) add(h *history, window int64, requests []request) (denied, first int64) {
	denied, first = h.denied(window, e.Limit, requests, e.series)
	e.RequestsDenied += denied
	e.KeysDenied++ // a limit below the peak denies at least one
	return denied, first
}

// decideAll returns the effects of limits, ascending: for each window its own.
func (r *requests) decideAll(windows []*measured, limits [][]int64, scripts bits) [][]effect {
	all := make([][]effect, len(windows))
	for i := range windows {
		for _, limit := range limits[i] {
			all[i] = append(all[i], newEffect(limit, r))
		}
	}
	var h history
	r.eachKey(func(key uint32, requests []request) {
		for i, m := range windows {
			peak := h.peak(m.window, requests)
			for j := range all[i] {
				e := &all[i][j]
				if e.Limit >= peak {
					break // no higher limit denies any of them
				}
				if denied, _ := e.add(&h, m.window, requests); !scripts.has(key) {
					e.ordinary += denied
				}
			}
		}
	})
	return all
}

// peak returns the largest number of units of requests in any window.
func (h *history) peak(window int64, requests []request) int64 {
	h.reset(window, math.MaxInt64)
	for _, r := range requests {
		h.allow(r)
	}
	return h.most
}

// denied returns the number of requests that a limit denies, and the least instant of them.
// It adds them to a series.
func (h *history) denied(window, limit int64, requests []request, s series) (n, first int64) {
	h.reset(window, limit)
	first = math.MaxInt64
	for _, r := range requests {
		if h.allow(r) {
			continue
		}
		n, first = n+1, min(first, r.at)
		s.deny(r.at)
	}
	return n, first
}
