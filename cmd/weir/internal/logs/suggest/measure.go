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
	peaks    []PeakCount // all keys
	ordinary []PeakCount // keys that a limit must spare: no scripts and no batches
	others   []PeakCount // keys that are no scripts that a rule of time shows
	crowd    int64       // the largest peak of crowds; 0 = none
	batch    int64       // the largest peak of batches; 0 = none

	// days has the most units that count together of an ordinary key, by day. The first number is
	// that of earlier days.
	days []int64
}

// measure computes the peak of every key in every window.
func (r *requests) measure(windows []time.Duration, days *calendar, keys []profile) (all []*measured) {
	type counts struct{ all, ordinary, others histogram }
	var peaks []counts
	for _, w := range windows {
		all = append(all, &measured{
			window: w.Microseconds(),
			days:   make([]int64, len(days.days)+1),
		})
		peaks = append(peaks, counts{histogram{}, histogram{}, histogram{}})
	}
	var h history
	r.eachKey(func(key uint32, requests []request) {
		class := keys[key].class
		isOrdinary := !class.isScript() && class != Batch
		for i, m := range all {
			h.reset(m.window, math.MaxInt64)
			for _, r := range requests {
				h.allow(r)
				if isOrdinary {
					day := days.day(r.at)
					m.days[day+1] = max(m.days[day+1], h.used)
				}
			}
			peaks[i].all[h.most]++
			if class != Even && class != Sleepless && class != Batch {
				peaks[i].others[h.most]++
			}
			if isOrdinary {
				peaks[i].ordinary[h.most]++
			}
			switch class {
			case Crowd:
				m.crowd = max(m.crowd, h.most)
			case Batch:
				m.batch = max(m.batch, h.most)
			}
		}
	})
	for i, m := range all {
		m.peaks = peaks[i].all.peaks()
		m.ordinary = peaks[i].ordinary.peaks()
		m.others = peaks[i].others.peaks()
	}
	return all
}

// peakWithout returns the largest peak of ordinary keys without those of a day. A peak belongs to
// the day of its last request.
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
	apartKeys           int64 // those of scriptKeys that size alone shows
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
		if class == Apart {
			e.apartKeys++
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
	r.eachKey(func(key uint32, requests []request) {
		for i, m := range windows {
			peak := h.peak(m.window, requests)
			for j := range all[i] {
				e := &all[i][j]
				if e.Limit >= peak {
					break // no higher limit denies any of them
				}
				n, _ := e.add(&h, requests)
				e.count(keys[key].class, n)
			}
		}
	})
	return all
}

// request is one request of a key.
type request struct {
	at int64 // microseconds since 1970
	n  int64 // units
}

// history decides the requests of one key by one limit, as the engines do.
type history struct {
	window int64 // microseconds
	limit  int64 // units
	grants []request
	head   int   // the first grant that counts at seen
	kept   int   // the grants before it were dropped by a later grant
	used   int64 // units of the grants from head on
	last   int64 // instant of the newest grant, or of a correction (R2)
	seen   int64 // instant up to which head has moved
	most   int64 // the largest number of units that counted together
}

// reset forgets all grants and sets a limit.
func (h *history) reset(window, limit int64) {
	const longAgo = -1 << 60
	*h = history{
		window: window,
		limit:  limit,
		grants: h.grants[:0],
		last:   longAgo,
		seen:   longAgo,
	}
}

// allow decides a request and reports whether it was granted.
func (h *history) allow(r request) bool {
	if r.n == 0 {
		return true // a peek (R4)
	}
	if r.at < h.seen {
		r.at = h.moveBack(r.at)
	}
	h.seen = r.at
	for h.head < len(h.grants) && h.grants[h.head].at <= r.at-h.window {
		h.used -= h.grants[h.head].n
		h.head++
	}
	if r.n > h.limit-h.used {
		return false
	}
	h.grants = append(h.grants, r)
	h.used += r.n
	h.last = r.at
	h.kept = h.head
	h.most = max(h.most, h.used)
	return true
}

// moveBack returns the instant of a decision with a clock that is behind (R2): that of the newest
// grant if it is ahead by less than a second. Otherwise the grants of the future become one at at,
// so that each moves once, also in a log that runs backward. Grants that only denials have passed
// count again (R4).
func (h *history) moveBack(at int64) int64 {
	if d := h.last - at; d > 0 && d < second {
		at = h.last
	}
	for h.head > h.kept && h.grants[h.head-1].at > at-h.window {
		h.head--
		h.used += h.grants[h.head].n
	}
	if h.last > at {
		last := len(h.grants) - 1
		for ; last > h.head && h.grants[last-1].at > at; last-- {
			h.grants[last-1].n += h.grants[last].n
		}
		h.grants = h.grants[:last+1]
		h.grants[last].at = at
		h.last = at
	}
	return at
}

// peak returns the largest number of units of requests in any window.
func (h *history) peak(window int64, requests []request) int64 {
	h.reset(window, math.MaxInt64)
	for _, r := range requests {
		h.allow(r)
	}
	return h.most
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
	r.eachKey(func(key uint32, requests []request) {
		for _, d := range all {
			k := keyEffect{
				key:      key,
				class:    keys[key].class,
				peak:     h.peak(d.window, requests),
				requests: int64(len(requests)),
			}
			if k.peak > d.Limit {
				k.denied, k.first = d.add(&h, requests)
				d.count(keys[key].class, k.denied)
				d.top.add(k)
			}
			d.heaviest.add(k)
		}
	})
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
	order func(a, b *keyEffect) int
	all   []keyEffect
}

// byDenied orders the keys with the most denials first.
func byDenied(a, b *keyEffect) int {
	return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(b.peak, a.peak),
		cmp.Compare(a.key, b.key))
}

// byPeak orders the keys with the largest peaks first.
func byPeak(a, b *keyEffect) int {
	return cmp.Or(cmp.Compare(b.peak, a.peak), cmp.Compare(b.requests, a.requests),
		cmp.Compare(a.key, b.key))
}

// add adds a key.
func (r *ranking) add(e keyEffect) {
	r.all = append(r.all, e)
	if len(r.all) >= 8*MaxTop {
		r.cut()
	}
}

// cut sorts the keys and drops those behind the first MaxTop.
func (r *ranking) cut() {
	slices.SortFunc(r.all, func(a, b keyEffect) int { return r.order(&a, &b) })
	r.all = r.all[:min(len(r.all), MaxTop)]
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
