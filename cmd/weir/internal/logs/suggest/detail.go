package suggest

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// detail is the effect of one limit of one window on keys and over time.
type detail struct {
	effect
	top, heaviest ranking
}

// describe returns the details of limits, for each window of one.
func (r *requests) describe(windows []*measured, choices []Suggestion) []*detail {
	all := make([]*detail, len(windows))
	for i, m := range windows {
		all[i] = &detail{newEffect(m.window, choices[i].Limit, &r.slots), ranking{order: byDenied}, ranking{order: byPeak}}
	}
	var h history
	r.eachKey(func(key uint32, requests []request) {
		for _, d := range all {
			k := keyEffect{key: key, peak: h.peak(d.window, requests), requests: int64(len(requests))}
			if k.peak > d.Limit {
				k.denied, k.first = d.add(&h, requests)
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
func (r *ranking) result(named func(key uint32) replay.Key) []Key {
	r.cut()
	all := []Key{}
	for _, e := range r.all {
		k := Key{Key: named(e.key), Peak: e.peak, Requests: e.requests, Denied: e.denied}
		if e.denied > 0 {
			k.FirstDenied = time.UnixMicro(e.first).UTC()
		}
		all = append(all, k)
	}
	return all
}
