package window

// Behind reports whether a clock that says raw is so far behind the history
// that it must have been corrected (R2).
func (h *History) Behind(raw int64) bool { return h.Last-raw >= Step }

// Redate takes the entries of the future as entries of now, where end is the
// end of an entry of now (R2).
func (h *History) Redate(a *Arena, end, now int64) {
	if h.Last > now {
		h.Last = now
	}
	if h.End <= end {
		return
	}
	words, units := 0, int64(0)
	for c := h.older.cursor(a); ; {
		e, ok := c.next(h)
		if !ok || e.end >= end {
			break
		}
		words += e.words
		units += e.units
	}
	h.older.keep(a, words)
	h.End, h.Units = end, h.Total-units
}

// Clone returns a copy of the history whose log stands in an arena of its own.
func (h *History) Clone(a *Arena) (*History, *Arena) {
	own := &Arena{Budget: unlimited{}}
	c := Empty
	for cur := h.older.cursor(a); ; {
		e, ok := cur.next(h)
		if !ok {
			break
		}
		own.Reserve(1)
		c.Add(own, e.end, h.Last, e.units)
	}
	own.Reserve(1)
	c.Add(own, h.End, h.Last, h.Units)
	return &c, own
}

type unlimited struct{}

func (unlimited) Take(int) bool { return true }
func (unlimited) Give(int)      {}
