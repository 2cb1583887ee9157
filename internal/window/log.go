package window

import (
	"sync/atomic"

	"github.com/weirlimit/weir/internal/slab"
)

// perChunk is the number of words in a chunk. With the link they fill a cache line, so
// that a history of up to fifteen common entries takes two lines: its record and one
// chunk (BenchmarkAllow, 10,000 keys).
const perChunk = 15

// Chunk is a run of a log.
type Chunk struct {
	words [perChunk]uint32
	next  uint32 // the chunk behind
}

// ChunkSize is the size of a Chunk in bytes.
const ChunkSize = perChunk*4 + 4

// Link returns the reference that a free chunk keeps.
func (c *Chunk) Link() *uint32 { return &c.next }

// Words returns the words of the chunk for another use, such as a long key.
func (c *Chunk) Words() *[perChunk]uint32 { return &c.words }

// WordsPerChunk is the number of Words.
const WordsPerChunk = perChunk

// Arena holds the chunks of logs.
type Arena struct {
	slab.Slab[Chunk, *Chunk]
	Budget slab.Budget

	reading atomic.Pointer[History] // that is read in parts; nil if its entries have changed since
	begun   atomic.Int64            // readings so far
}

// Reserve reports whether n chunks can be allocated, and takes them from the budget.
func (a *Arena) Reserve(n int) bool {
	return a.Len()+n <= maxChunks && a.Slab.Reserve(n, ChunkSize, a.Budget)
}

// Release frees all memory; no chunk may be in use.
func (a *Arena) Release() { a.Slab.Release(ChunkSize, a.Budget) }

// Free frees a chunk. The next Alloc finds room without Reserve.
func (a *Arena) Free(ref uint32) { a.Slab.Free(ref, ChunkSize, a.Budget) }

// log is a queue of entries in a list of chunks, written in words as entry.go describes.
// It takes 8 bytes of its history, and both of its ends are one step away.
//
// A log in one chunk is a ring: it goes on at the beginning of the chunk, which is its own
// next one. So a short history keeps to one chunk, and its words do not move. That is 6 %
// of a decision on 10,000 keys with ten entries each (BenchmarkAllow).
type log struct {
	head place // the oldest entry; 0 = the log is empty
	tail place // behind the newest entry
}

// place is a position in a log: a chunk in the low 26 bits, 0 = none, and the number of
// words before the position in the 4 bits on top. In a tail the two bits between are the
// kind of the newest entry.
type place uint32

const (
	placeBits = 28
	kindBits  = 26
	chunkMask = 1<<kindBits - 1
	kindMask  = 3 << kindBits

	// maxChunks keeps references within chunkMask, however thinly pages are filled.
	maxChunks = chunkMask / 2
)

func at(ref uint32, pos int) place { return place(ref) | place(pos)<<placeBits }
func (p place) ref() uint32        { return uint32(p & chunkMask) }
func (p place) pos() int           { return int(p >> placeBits) }
func (p place) kind() kind         { return kind(p >> kindBits & 3) }

// empty reports whether the log holds no entry.
func (q *log) empty() bool { return q.head == 0 }

// chunks is the number of chunks that n more words take, 0 < n <= 5. One place of a ring
// stays free, so that its ends differ. A ring that has wrapped around may take two: its
// newest words move to the first, and the rest of n may not fit behind them.
func (q *log) chunks(n int) int {
	head, tail := q.head.pos(), q.tail.pos()
	wrapped := q.head.ref() == q.tail.ref() && tail <= head
	room := perChunk - tail
	switch {
	case wrapped && tail+n < head:
		return 0
	case wrapped && n > room:
		return 2
	case wrapped:
		return 1
	case q.head.ref() == q.tail.ref():
		room += max(head-1, 0)
	}
	if n > room {
		return 1
	}
	return 0
}

// wraps reports whether a log at the end of its newest chunk goes on at the beginning of it.
func (q *log) wraps() bool {
	return q.head.ref() == q.tail.ref() && q.head.pos() > 1
}

// closed reports whether a log is a ring without a place for another word.
func (q *log) closed() bool {
	return q.head.ref() == q.tail.ref() && q.tail.pos()+1 == q.head.pos()
}

// append adds a word. The arena must have the chunks in reserve that it may take.
func (q *log) append(a *Arena, word uint32) {
	ref, pos := q.tail.ref(), q.tail.pos()
	switch {
	case q.head == 0:
		ref, pos = a.Alloc(), 0
		q.head = at(ref, 0)
	case pos == perChunk && q.wraps():
		a.At(ref).next = ref
		pos = 0
	case pos == perChunk:
		next := a.Alloc()
		a.At(ref).next = next
		ref, pos = next, 0
	case q.closed(): // its newest words move to another chunk
		next := a.Alloc()
		copy(a.At(next).words[:pos], a.At(ref).words[:pos])
		a.At(ref).next = next
		ref = next
	}
	a.At(ref).words[pos] = word
	q.tail = at(ref, pos+1)
}

// dropTo removes the entries before that place.
func (q *log) dropTo(a *Arena, to place) {
	for ref := q.head.ref(); ref != to.ref(); {
		next := a.At(ref).next
		a.Free(ref)
		ref = next
	}
	q.head = to
}

// cutAt removes the entries behind a place, where an entry of that kind ends.
func (q *log) cutAt(a *Arena, behind place, k kind) {
	if ref, last := behind.ref(), q.tail.ref(); ref != last {
		a.freeList(a.At(ref).next, last)
	}
	q.tail = behind | place(k)<<kindBits
}

// free removes everything.
func (q *log) free(a *Arena) {
	if q.head != 0 {
		a.freeList(q.head.ref(), q.tail.ref())
	}
	*q = log{}
}

// freeList frees the chunks from ref to last.
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

// restart drops all entries of a log in one chunk, and keeps the chunk for the next one.
func (q *log) restart() {
	q.head = at(q.head.ref(), 0)
	q.tail = q.head
}
