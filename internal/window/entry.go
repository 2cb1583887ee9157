package window

// kind is how an entry is written. Its time is the time since the entry before it,
// in microseconds; of the oldest one, whose History knows its end, it says nothing.
type kind uint8

const (
	narrow kind = iota // one word, of one unit: 0, 1 (0 when it was refunded), 30 bits of time (18 minutes)
	middle             // two words: 1, 46 bits of time (814 days), 17 bits of units
	wide               // these with all bits of units set, and two words of units
)

// The two words of a wide entry's units are 31 bits with a 1 below, and the rest.
// They stand in one chunk, so that those of the newest entry are one step away:
// where there is only one place left, a 0 comes before them.

const (
	narrowTime  = 1 << 30
	middleUnits = 1<<17 - 1
	middleTime  = 1 << 46

	// An entry is at most 800 days behind the one before, which counted when it was
	// recorded: a window of 400 days, and a cell no wider than that (R9).
	timeBits = 46
	highTime = 1<<(timeBits-31) - 1 // of the time, what stands in the second word
	unitBits = timeBits - 31        // where units begin in it

	wideWords  = 3             // what units in words of their own take, at most
	grownWords = 1 + wideWords // what the newest entry may take when it grows
)

// words returns how many words an entry takes, at most.
func words(time, units int64) int {
	switch {
	case time < narrowTime && units == 1:
		return 1
	case units < middleUnits:
		return 2
	}
	return 2 + wideWords
}

// add appends an entry. The arena must have a chunk in reserve if the log is full
// for its words.
func (q *log) add(a *Arena, time, units int64) {
	if time < narrowTime && units == 1 {
		word := uint32(time)<<2 | 2
		if pos := q.tail.pos(); q.head != 0 && pos < perChunk { // as append does it, but inline
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

// addMiddle appends the second word of an entry, and what units do not fit it.
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

// setNewest changes the units of the newest entry. To widen it, the arena must
// have a chunk in reserve if the log is full for grownWords.
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
	units int64 // 0 of one whose units were all refunded
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

// cursor stands before the oldest entry.
func (h *History) cursor(a *Arena) cursor {
	c := cursor{a: a, stop: h.log.tail &^ kindMask, end: h.Front}
	if !h.log.empty() {
		c.ref, c.pos = h.log.head.ref(), h.log.head.pos()
		c.chunk = a.At(c.ref)
	}
	return c
}

// place is where the cursor stands: behind the entry it has read.
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

// step goes on to the next chunk.
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

// next returns the entry that the cursor stands before and moves on. There must be
// one more.
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

// wide returns the first word of units that stand in words of their own.
func (c *cursor) wide() *uint32 {
	w := c.word()
	if *w == 0 {
		w = c.word()
	}
	return w
}

// set changes the units of the entry that the cursor stands before, not to more.
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
