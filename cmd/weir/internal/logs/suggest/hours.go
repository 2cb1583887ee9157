package suggest

import (
	"maps"
	"slices"
)

// hourRecord has the keys with the most requests in each hour of the log, by the hours since 1970.
type hourRecord map[int64]*hourOfLog

// hourOfLog is one hour of the log.
type hourOfLog struct {
	keys     int               // with requests
	requests int64             // the number of requests of all keys
	top      [topOfHour]inHour // those with the most requests, the first ones of keys
}

// inHour is the number of requests of a key in an hour.
type inHour struct {
	key      uint32
	requests uint32
}

// topOfHour is the number of keys that are recorded for each hour. If more keys lie above a gap,
// none of them is far above all others.
const topOfHour = 8

// add adds the sorted requests of a key.
func (h hourRecord) add(key uint32, requests []request) {
	for len(requests) > 0 {
		at := requests[0].at / hour
		n := 1
		for n < len(requests) && requests[n].at < (at+1)*hour {
			n++
		}
		if h[at] == nil {
			h[at] = &hourOfLog{}
		}
		h[at].add(inHour{key: key, requests: uint32(n)})
		requests = requests[n:]
	}
}

// add adds a key.
func (h *hourOfLog) add(one inHour) {
	h.keys++
	h.requests += int64(one.requests)
	for i := range h.top {
		if one.requests > h.top[i].requests {
			h.top[i], one = one, h.top[i]
		}
	}
}

// above returns the keys that are far above all others of the hour: a few of many keys. base is the
// largest number of requests of any other key.
func (h *hourOfLog) above() (all []inHour, base uint32) {
	most := min(topOfHour-1, h.keys-fewKeys, int(heavyShare*float64(h.keys)))
	for i := most; i > 0; i-- {
		base = h.top[i].requests
		if h.top[i-1].requests >= gapOfScripts*base {
			return h.top[:i], base
		}
	}
	return nil, 0
}

// visitor returns the number of requests in the hour below which a key may be a visitor, by the mean
// of all keys but the first ones of top.
func (h *hourOfLog) visitor(first int) uint32 {
	rest := h.requests
	for _, k := range h.top[:first] {
		rest -= int64(k.requests)
	}
	return uint32(max(visitorOfHour, visitorRatio*rest/int64(h.keys-first)))
}

// markAlone counts, in the profiles of keys, the requests in the hours in which a key is far above
// all others, and notes whether it is no visitor in one of them.
func (h hourRecord) markAlone(keys []profile) {
	for _, one := range h {
		above, _ := one.above()
		for _, k := range above {
			p := &keys[k.key]
			p.alone += k.requests
			if k.requests >= one.visitor(len(above)) {
				p.isBusy = true
			}
		}
	}
}

// standing is a key that is far above all others of an hour.
type standing struct {
	inHour
	at   int64 // the hour, since 1970
	hour *hourOfLog
}

// fullestOf returns the hour with the most requests of a key that is far above all others of that
// hour, the first of equal ones.
func (h hourRecord) fullestOf(key uint32) (fullest standing) {
	for _, at := range slices.Sorted(maps.Keys(h)) {
		above, _ := h[at].above()
		for _, one := range above {
			if one.key == key && one.requests > fullest.requests {
				fullest = standing{inHour: one, at: at, hour: h[at]}
			}
		}
	}
	return fullest
}
