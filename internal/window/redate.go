package window

// Behind reports whether a clock that says raw is so far behind the history
// that it must have been corrected (R2).
func (h *History) Behind(raw int64) bool { return h.Last-raw >= Step }

// Redate takes the entries of the future as entries of now, where end is the
// end of an entry of now (R2). It takes no chunk that it has not freed.
func (h *History) Redate(a *Arena, end, now int64) {
	h.Last = min(h.Last, now)
	if h.End <= end {
		return
	}
	words, units, wide := 0, int64(0), false
	for c := h.log.cursor(a); ; {
		e, ok := c.next(h)
		if !ok || e.end >= end {
			break
		}
		words += e.words
		units += e.units
		wide = e.words == 2
	}
	h.log.keep(a, words, wide)
	if words == 0 {
		h.Front = end
	} else {
		h.log.add(a, end, h.Total-units)
	}
	h.End = end
}

// Clone returns a copy of the history whose log stands in an arena of its own.
func (h *History) Clone(a *Arena) (*History, *Arena) {
	own := &Arena{Budget: unlimited{}}
	c := *h
	c.log = log{}
	for cur := h.log.cursor(a); ; {
		e, ok := cur.next(h)
		if !ok {
			return &c, own
		}
		own.Reserve(1)
		c.log.add(own, e.end, e.units)
	}
}

type unlimited struct{}

func (unlimited) Take(int) bool { return true }
func (unlimited) Give(int)      {}
