package window

// MostChunks is the number of chunks that Redate and an Add after it may take together. A
// Redate that takes two leaves room for the entry of the Add in the second.
const MostChunks = 2

// Behind reports whether a clock at raw is so far behind the history that it must have
// been corrected (R2).
func (h *History) Behind(raw int64) bool { return h.Last-raw >= Step }

// Redate merges the entries of the future into one entry of now, of at most MaxUnits,
// where end is the end of an entry of now (R2). The arena must have MostChunks in reserve.
func (h *History) Redate(a *Arena, end, now int64) {
	if h.Rate() != 0 { // as much is missing now as was at the newest attempt
		micros, rest := h.missing(h.Last)
		h.End, h.Total, h.Front = now+micros, rest, min(h.Front, now)
		h.Last = min(h.Last, now)
		return
	}
	h.Last = min(h.Last, now)
	if h.End <= end {
		return
	}
	a.changed(h)
	var kept tail
	units := int64(0)
	for c := h.cursor(a); c.more(); {
		e := c.next()
		if e.end >= end {
			break
		}
		units += e.units
		kept.see(&c, e)
	}
	merged := min(h.Total-units, MaxUnits)
	h.End, h.Total = end, units+merged
	if kept.place == 0 {
		h.log.free(a)
		h.Front = end
		return
	}
	h.log.cutAt(a, kept.place, kept.kind)
	h.log.add(a, end-kept.end, merged)
}

// Clone returns a copy of the history with a log in an arena of its own.
func (h *History) Clone(a *Arena) (*History, *Arena) {
	own := &Arena{Budget: unlimited{}}
	copied := *h
	if h.log.head == 0 {
		return &copied, own
	}
	copied.log = log{}
	before := h.Front
	for c := h.cursor(a); c.more(); {
		if e := c.next(); e.units > 0 {
			own.Reserve(copied.log.chunks(words(e.end-before, e.units)))
			copied.log.add(own, e.end-before, e.units)
			before = e.end
		}
	}
	return &copied, own
}

type unlimited struct{}

func (unlimited) Take(int) bool { return true }
func (unlimited) Give(int)      {}
