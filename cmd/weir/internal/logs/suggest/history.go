package suggest

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
	*h = history{window: window, limit: limit, grants: h.grants[:0], last: -1 << 60, seen: -1 << 60}
}

// allow decides a request and reports whether it was granted.
func (h *history) allow(r request) bool {
	if r.n == 0 {
		return true // a peek (R4)
	}
	if r.at < h.seen {
		r.at = h.back(r.at)
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
	h.last, h.kept = r.at, h.head
	h.most = max(h.most, h.used)
	return true
}

// back returns the instant of a decision with a clock that is behind (R2): that of the newest
// grant if it is ahead by less than a second. Otherwise the grants of the future move to at.
// Grants that only denials have passed count again (R4).
func (h *history) back(at int64) int64 {
	if d := h.last - at; d > 0 && d < second {
		at = h.last
	} else if d > 0 {
		for i := len(h.grants) - 1; i >= 0 && h.grants[i].at > at; i-- {
			h.grants[i].at = at
		}
		h.last = at
	}
	for h.head > h.kept && h.grants[h.head-1].at > at-h.window {
		h.head--
		h.used += h.grants[h.head].n
	}
	return at
}
