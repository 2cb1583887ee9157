package window

import "github.com/weirlimit/weir/internal/slab"

// perChunk is the number of words a chunk holds. Ten make an entry cost 88/10 =
// 8.8 bytes, and a history of ten entries fit one chunk; larger chunks waste more
// at their ends than they save on links.
const perChunk = 10

// Chunk is a run of a log. Its words are entries: the low 48 bits of the
// entry's end above 16 bits of units. Units of 65,535 and more stand whole in
// the word behind.
type Chunk struct {
	words [perChunk]uint64
	next  uint32 // the chunk behind
}

// ChunkSize is the size of a Chunk in bytes.
const ChunkSize = perChunk*8 + 8

const (
	unitBits  = 16
	wideUnits = 1<<unitBits - 1
	endMask   = 1<<(64-unitBits) - 1
)

// Link returns the reference a free chunk keeps.
func (c *Chunk) Link() *uint32 { return &c.next }

// Words gives the words of the chunk to another use, such as a long key.
func (c *Chunk) Words() *[perChunk]uint64 { return &c.words }

// WordsPerChunk is the number of Words.
const WordsPerChunk = perChunk

// Arena is where logs keep their chunks.
type Arena struct {
	slab.Slab[Chunk, *Chunk]
	Budget slab.Budget
}

// Reserve reports whether n chunks can be had, taking them from the budget.
func (a *Arena) Reserve(n int) bool {
	return a.Len()+n <= maxChunks && a.Slab.Reserve(n, ChunkSize, a.Budget)
}

// Release gives all memory back; no chunk may be in use.
func (a *Arena) Release() { a.Slab.Release(ChunkSize, a.Budget) }

// Free gives a chunk back. The next Alloc finds room without Reserve.
func (a *Arena) Free(ref uint32) { a.Slab.Free(ref, ChunkSize, a.Budget) }

// log is a queue of words in a list of chunks. It takes 8 bytes in its history,
// and both of its ends are one step away.
type log struct {
	head place // the oldest word; 0 = the log is empty
	tail place // behind the newest word
}

// place is a position in a log: a chunk in the low 27 bits, 0 = none, and the
// number of words before the position in the 4 bits on top. Of a tail, the bit
// between says that the newest entry is wide.
type place uint32

const (
	placeBits = 28
	wideEntry = place(1) << 27
	chunkMask = wideEntry - 1

	// maxChunks keeps references within chunkMask, however thinly pages are filled.
	maxChunks = int(chunkMask / 2)
)

func at(ref uint32, pos int) place { return place(ref) | place(pos)<<placeBits }
func (p place) ref() uint32        { return uint32(p & chunkMask) }
func (p place) pos() int           { return int(p >> placeBits) }

// empty reports whether the log holds no word.
func (q *log) empty() bool { return q.head == 0 }

// full reports whether n more words, 1 or 2, need another chunk.
func (q *log) full(n int) bool {
	return q.head == 0 || q.tail.pos()+n > perChunk && !q.slides()
}

// slides reports whether the log stands in the second half of one chunk: then it
// moves to the front of it rather than into another, so that a history of a few
// entries keeps to one.
func (q *log) slides() bool {
	return q.head.pos() >= perChunk/2 && q.head.ref() == q.tail.ref()
}

// first is the first word of a log that is not empty.
func (q *log) first(a *Arena) uint64 {
	return a.At(q.head.ref()).words[q.head.pos()]
}

// add appends an entry. The arena must have a chunk in reserve if the log is full
// for its words.
func (q *log) add(a *Arena, end, units int64) {
	word := uint64(end) << unitBits
	if units < wideUnits {
		q.append(a, word|uint64(units))
		return
	}
	q.append(a, word|wideUnits)
	q.append(a, uint64(units))
	q.tail |= wideEntry
}

// append adds a word, of a narrow entry unless the caller says otherwise.
func (q *log) append(a *Arena, word uint64) {
	ref, pos := q.tail.ref(), q.tail.pos()
	switch {
	case q.head == 0:
		ref, pos = a.Alloc(), 0
		q.head = at(ref, 0)
	case pos == perChunk && q.slides():
		words := &a.At(ref).words
		pos = copy(words[:], words[q.head.pos():])
		q.head = at(ref, 0)
	case pos == perChunk:
		next := a.Alloc()
		a.At(ref).next = next
		ref, pos = next, 0
	}
	a.At(ref).words[pos] = word
	q.tail = at(ref, pos+1)
}

// last is the last word of a log that is not empty: the newest entry, or of a
// wide one its units.
func (q *log) last(a *Arena) *uint64 {
	return &a.At(q.tail.ref()).words[q.tail.pos()-1]
}

// newest is the units of the newest entry.
func (q *log) newest(a *Arena) int64 {
	if q.tail&wideEntry != 0 {
		return int64(*q.last(a))
	}
	return int64(*q.last(a) & wideUnits)
}

// setNewest changes the units of the newest entry. To widen it, the arena must
// have a chunk in reserve if the log is full for a word.
func (q *log) setNewest(a *Arena, units int64) {
	w := q.last(a)
	switch {
	case q.tail&wideEntry != 0:
		*w = uint64(units)
	case units < wideUnits:
		*w = *w&^wideUnits | uint64(units)
	default:
		*w |= wideUnits
		q.append(a, uint64(units))
		q.tail |= wideEntry
	}
}

// drop removes n words from the front. There must be more of them.
func (q *log) drop(a *Arena, n int) {
	for n >= perChunk-q.head.pos() {
		ref := q.head.ref()
		n -= perChunk - q.head.pos()
		q.head = at(a.At(ref).next, 0)
		a.Free(ref)
	}
	q.head += at(0, n)
}

// keep removes all words but the first n, of which the last entry is wide or not.
func (q *log) keep(a *Arena, n int, wide bool) {
	if n == 0 {
		q.free(a)
		return
	}
	ref, pos := q.head.ref(), q.head.pos()
	for n > perChunk-pos {
		n -= perChunk - pos
		ref, pos = a.At(ref).next, 0
	}
	if last := q.tail.ref(); ref != last {
		a.freeList(a.At(ref).next, last)
	}
	q.tail = at(ref, pos+n)
	if wide {
		q.tail |= wideEntry
	}
}

// free removes all words.
func (q *log) free(a *Arena) {
	if q.head != 0 {
		a.freeList(q.head.ref(), q.tail.ref())
	}
	*q = log{}
}

// freeList gives the chunks from ref to last back.
func (a *Arena) freeList(ref, last uint32) {
	for {
		next := a.At(ref).next
		a.Free(ref)
		if ref == last {
			return
		}
		ref = next
	}
}

// cursor walks the words of a log from the front.
type cursor struct {
	a   *Arena
	pos place
	end place
}

func (q *log) cursor(a *Arena) cursor { return cursor{a: a, pos: q.head, end: q.tail &^ wideEntry} }

// word returns the next word, to be read or overwritten; nil at the end.
func (c *cursor) word() *uint64 {
	if c.pos == c.end {
		return nil
	}
	chunk := c.a.At(c.pos.ref())
	if c.pos.pos() == perChunk {
		c.pos = at(chunk.next, 0)
		chunk = c.a.At(chunk.next)
	}
	w := &chunk.words[c.pos.pos()]
	c.pos += at(0, 1)
	return w
}
