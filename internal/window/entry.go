package window

// kind is the form in which an entry is written. Its time is the time since the entry
// before it, in microseconds. The time of the oldest entry has no meaning: History.Front
// is its end.
type kind uint8

const (
	narrow kind = iota // one word, for one unit: 0, 1 (0 if it was refunded), 30 bits of time (18 minutes)
	middle             // two words: 1, 46 bits of time (814 days), 17 bits of units
	wide               // these with all bits of units set, and two words of units
)

// The two words of a wide entry's units are 31 bits with a 1 below, and the rest. Both
// are in one chunk, so that the units of the newest entry are one step away: if a chunk
// has only one place left, a 0 fills it.

const (
	narrowTime  = 1 << 30
	middleUnits = 1<<17 - 1

	// An entry is at most 800 days after the one before, which counted when it was
	// recorded: a window of 400 days, and a cell of at most that width (R9).
	timeBits = 46
	highTime = 1<<(timeBits-31) - 1 // the bits of the time in the second word
	unitBits = timeBits - 31        // the bit of the second word at which units begin

	wideWords  = 3             // the most words of units in words of their own
	grownWords = 1 + wideWords // the most words that the newest entry takes when it grows
)

// words returns the most words that an entry takes.
func words(time, units int64) int {
	switch {
	case time < narrowTime && units == 1:
		return 1
	case units < middleUnits:
		return 2
	}
	return 2 + wideWords
}

// add appends an entry. The arena must have chunks for its words in reserve.
func (q *log) add(a *Arena, time, units int64) {
	if time < narrowTime && units == 1 {
		word := uint32(time)<<2 | 2
		if pos := q.tail.pos(); q.head != 0 && pos < perChunk && !q.closed() { // as append does, but inline
			a.At(q.tail.ref()).words[pos] = word
			q.tail = at(q.tail.ref(), pos+1)
			return
		}
		q.append(a, word)
		return
	}
	q.append(a, uint32(time)<<1|1)
	q.addMiddle(a, uint32(time>>31), units)
}

// addMiddle appends the second word of an entry, and words for units that do not fit it.
func (q *log) addMiddle(a *Arena, high uint32, units int64) {
	q.append(a, high|uint32(min(units, middleUnits))<<unitBits)
	if units >= middleUnits {
		q.widen(a, units)
		return
	}
	q.tail |= place(middle) << kindBits
}

// widen appends the units of the newest entry in words of their own.
func (q *log) widen(a *Arena, units int64) {
	if q.tail.pos() == perChunk-1 {
		q.append(a, 0)
	}
	q.append(a, uint32(units)<<1|1)
	q.append(a, uint32(units>>31))
	q.tail |= place(wide) << kindBits
}

// newest is the units of the newest entry.
func (q *log) newest(a *Arena) int64 {
	words, pos := &a.At(q.tail.ref()).words, q.tail.pos()
	switch last := words[pos-1]; q.tail.kind() {
	case narrow:
		return 1
	case middle:
		return int64(last >> unitBits)
	default:
		return int64(words[pos-2]>>1) | int64(last)<<31
	}
}

// grow adds units to the newest entry, as setNewest does.
func (q *log) grow(a *Arena, n int64) {
	if q.tail.kind() == middle {
		last := &a.At(q.tail.ref()).words[q.tail.pos()-1]
		if n < middleUnits-int64(*last>>unitBits) {
			*last += uint32(n) << unitBits
			return
		}
	}
	q.setNewest(a, q.newest(a)+n)
}

// setNewest changes the units of the newest entry. To widen it, the arena must have chunks
// for grownWords in reserve.
func (q *log) setNewest(a *Arena, units int64) {
	words, pos := &a.At(q.tail.ref()).words, q.tail.pos()
	last := &words[pos-1]
	switch q.tail.kind() {
	case narrow:
		if units > 1 {
			*last = *last>>2<<1 | 1
			q.addMiddle(a, 0, units)
		}
	case middle:
		*last = *last&highTime | uint32(min(units, middleUnits))<<unitBits
		if units >= middleUnits {
			q.widen(a, units)
		}
	default:
		words[pos-2], *last = uint32(units)<<1|1, uint32(units>>31)
	}
}

// entry is one entry as read from the log.
type entry struct {
	end   int64
	units int64 // 0 if all were refunded
	kind  kind
}

// cursor walks the entries of a log from the front.
type cursor struct {
	a     *Arena
	chunk *Chunk
	ref   uint32
	pos   int
	stop  place
	end   int64 // of the entry before
	begun bool
}

// cursor returns a cursor before the oldest entry.
func (h *History) cursor(a *Arena) cursor {
	c := cursor{a: a, stop: h.log.tail &^ kindMask, end: h.Front}
	if !h.log.empty() {
		c.ref, c.pos = h.log.head.ref(), h.log.head.pos()
		c.chunk = a.At(c.ref)
	}
	return c
}

// place is the position of the cursor: behind the entry it has read.
func (c *cursor) place() place { return at(c.ref, c.pos) }

// more reports whether there is another entry, and steps to the chunk it begins in.
func (c *cursor) more() bool {
	if c.place() == c.stop {
		return false
	}
	if c.pos == perChunk {
		c.step()
	}
	return true
}

// step moves to the next chunk.
func (c *cursor) step() {
	c.ref, c.pos = c.chunk.next, 0
	c.chunk = c.a.At(c.ref)
}

// word returns the next word, to be read or overwritten.
func (c *cursor) word() *uint32 {
	if c.pos == perChunk {
		c.step()
	}
	w := &c.chunk.words[c.pos]
	c.pos++
	return w
}

// next returns the next entry and moves behind it. There must be one more.
func (c *cursor) next() (e entry) {
	w := *c.word()
	time := int64(w >> 2)
	e.units = int64(w >> 1 & 1)
	if w&1 != 0 {
		high := *c.word()
		time = int64(w>>1) | int64(high&highTime)<<31
		e.units, e.kind = int64(high>>unitBits), middle
		if e.units == middleUnits {
			low := c.wide()
			e.units, e.kind = int64(*low>>1)|int64(*c.word())<<31, wide
		}
	}
	if c.begun {
		c.end += time
	}
	c.begun = true
	e.end = c.end
	return e
}

// wide returns the first of the words that hold units alone.
func (c *cursor) wide() *uint32 {
	w := c.word()
	if *w == 0 {
		w = c.word()
	}
	return w
}

// set lowers the units of the next entry.
func (c cursor) set(units int64) {
	w := c.word()
	if *w&1 == 0 {
		*w = *w&^2 | uint32(units)<<1
		return
	}
	if w = c.word(); *w>>unitBits < middleUnits {
		*w = *w&highTime | uint32(units)<<unitBits
		return
	}
	low := c.wide()
	*low = uint32(units)<<1 | 1
	*c.word() = uint32(units >> 31)
}
