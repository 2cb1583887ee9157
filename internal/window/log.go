package window

import "github.com/weirlimit/weir/internal/slab"

// perChunk is the number of words a chunk holds. Nine make an entry cost 80/9 =
// 8.9 bytes, and a history with ten entries fit one chunk; larger chunks waste
// more at their ends than they save on links.
const perChunk = 9

// Chunk is a run of a log. Its words are entries: the low 48 bits of the
// entry's end above 16 bits of units. Units of 65,535 and more stand whole in
// the word behind.
type Chunk struct {
	words [perChunk]uint64
	next  uint32
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

// Words gives n words of the chunk to another use, such as a long key.
func (c *Chunk) Words() *[perChunk]uint64 { return &c.words }

// WordsPerChunk is the number of Words.
const WordsPerChunk = perChunk

// Arena is where logs keep their chunks.
type Arena struct {
	slab.Slab[Chunk, *Chunk]
	Budget slab.Budget
}

// Reserve reports whether n chunks can be had, taking them from the budget.
func (a *Arena) Reserve(n int) bool { return a.Slab.Reserve(n, ChunkSize, a.Budget) }

// Free gives a chunk back.
func (a *Arena) Free(ref uint32) { a.Slab.Free(ref, ChunkSize, a.Budget) }

// log is a queue of words in chunks that form a ring: the last chunk links to
// the first. It is made to be small: 6 bytes.
type log struct {
	tail uint32 // the last chunk; 0 = the log is empty
	head uint8  // words already dropped from the first chunk
	fill uint8  // words used in the last chunk
}

// append adds a word. The arena must have a chunk in reserve.
func (q *log) append(a *Arena, word uint64) {
	if q.tail == 0 {
		ref := a.Alloc()
		a.At(ref).next = ref
		q.tail, q.head, q.fill = ref, 0, 0
	} else if q.fill == perChunk {
		ref := a.Alloc()
		last := a.At(q.tail)
		a.At(ref).next = last.next
		last.next = ref
		q.tail, q.fill = ref, 0
	}
	a.At(q.tail).words[q.fill] = word
	q.fill++
}

// drop removes n words from the front. There must be as many.
func (q *log) drop(a *Arena, n int) {
	last := a.At(q.tail)
	for range n {
		q.head++
		if last.next == q.tail {
			if q.head == q.fill {
				a.Free(q.tail)
				*q = log{}
				return
			}
		} else if q.head == perChunk {
			first := last.next
			last.next = a.At(first).next
			a.Free(first)
			q.head = 0
		}
	}
}

// keep removes all words but the first n.
func (q *log) keep(a *Arena, n int) {
	if n == 0 {
		q.free(a)
		return
	}
	first := a.At(q.tail).next
	ref, pos := first, int(q.head)
	for ref != q.tail && n > perChunk-pos {
		n -= perChunk - pos
		ref, pos = a.At(ref).next, 0
	}
	for ref != q.tail {
		extra := a.At(ref).next
		if extra == q.tail {
			q.tail = ref
		}
		a.At(ref).next = a.At(extra).next
		a.Free(extra)
	}
	a.At(ref).next = first
	q.fill = uint8(pos + n)
}

// free removes all words.
func (q *log) free(a *Arena) {
	for q.tail != 0 {
		last := a.At(q.tail)
		first := last.next
		if first == q.tail {
			q.tail = 0
		} else {
			last.next = a.At(first).next
		}
		a.Free(first)
	}
	*q = log{}
}

// first is the first word of a log that is not empty.
func (q *log) first(a *Arena) *uint64 {
	return &a.At(a.At(q.tail).next).words[q.head]
}

// cursor walks the words of a log from the front.
type cursor struct {
	a     *Arena
	chunk *Chunk
	tail  uint32
	ref   uint32
	pos   uint8
	fill  uint8
}

func (q *log) cursor(a *Arena) cursor {
	c := cursor{a: a, tail: q.tail, pos: q.head, fill: q.fill}
	if q.tail != 0 {
		c.ref = a.At(q.tail).next
		c.chunk = a.At(c.ref)
	}
	return c
}

// word returns the next word and a way to overwrite it; nil at the end.
func (c *cursor) word() *uint64 {
	if c.chunk == nil {
		return nil
	}
	if c.ref == c.tail {
		if c.pos == c.fill {
			return nil
		}
	} else if c.pos == perChunk {
		c.ref = c.chunk.next
		c.chunk = c.a.At(c.ref)
		c.pos = 0
	}
	w := &c.chunk.words[c.pos]
	c.pos++
	return w
}
