package suggest

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// detail is the effect of one limit of one window on keys and over time.
type detail struct {
	window        int64
	effect        Candidate
	top, heaviest ranking
	timeline      *timeline
}

// newDetail returns the empty detail of a limit. The timeline has all requests.
func newDetail(window, limit int64, all *timeline) *detail {
	return &detail{window, Candidate{Limit: limit}, ranking{order: byDenied}, ranking{order: byPeak}, all.without()}
}

// describe fills details.
func (r *requests) describe(all []*detail) {
	var h history
	r.eachKey(func(key uint32, requests []request) {
		for _, d := range all {
			effect := keyEffect{key: key, peak: h.peak(d.window, requests), requests: int64(len(requests))}
			if effect.peak > d.effect.Limit {
				effect.denied, effect.first = h.denied(d.window, d.effect.Limit, requests, d.timeline)
				d.top.add(effect)
				d.effect.RequestsDenied += effect.denied
				d.effect.KeysDenied++
			}
			d.heaviest.add(effect)
		}
	})
}

// keyEffect is the effect of one limit on one key.
type keyEffect struct {
	key                    uint32
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
	return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(b.peak, a.peak), cmp.Compare(a.key, b.key))
}

// byPeak orders the keys with the largest peaks first.
func byPeak(a, b *keyEffect) int {
	return cmp.Or(cmp.Compare(b.peak, a.peak), cmp.Compare(b.requests, a.requests), cmp.Compare(a.key, b.key))
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
func (r *ranking) result(named func(key uint32) []replay.Dimension) (all []Key) {
	r.cut()
	for _, e := range r.all {
		k := Key{Key: named(e.key), Peak: e.peak, Requests: e.requests, Denied: e.denied}
		if e.denied > 0 {
			k.FirstDenied = time.UnixMicro(e.first).UTC()
		}
		all = append(all, k)
	}
	return all
}

// slots is the largest number of slots of a timeline.
const slots = 256

// timeline counts requests in slots of equal width, 2^shift seconds.
type timeline struct {
	shift         uint
	first         int64 // number of the first slot since 1970
	total, denied []int64
}

// newTimeline returns the slots of from … to.
func newTimeline(from, to int64) *timeline {
	t := &timeline{}
	for t.slot(to)-t.slot(from) >= slots {
		t.shift++
	}
	t.first = t.slot(from)
	n := t.slot(to) - t.first + 1
	t.total, t.denied = make([]int64, n), make([]int64, n)
	return t
}

func (t *timeline) slot(at int64) int64 { return at / second >> t.shift }
func (t *timeline) deny(at int64)       { t.denied[t.slot(at)-t.first]++ }

// count counts all requests.
func (t *timeline) count(s *events) {
	s.each(func(e event) { t.total[t.slot(e.at)-t.first]++ })
}

// without returns a timeline of the same requests without denials.
func (t *timeline) without() *timeline {
	return &timeline{t.shift, t.first, t.total, make([]int64, len(t.denied))}
}

// result returns the counts.
func (t *timeline) result() replay.Timeline {
	out := replay.Timeline{
		Start: time.Unix(t.first<<t.shift, 0).UTC(), Width: time.Second << t.shift,
		Allowed: make([]int64, len(t.total)), Denied: t.denied,
	}
	for i := range t.total {
		out.Allowed[i] = t.total[i] - t.denied[i]
	}
	return out
}
