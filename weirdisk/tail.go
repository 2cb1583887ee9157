package weirdisk

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
)

// The tail is a file that is mapped into memory. With SyncEvery and SyncOff a caller copies
// its batch there, which makes it the operating system's: it survives a SIGKILL without a
// system call and without a wait. The writer copies it to the segment later. A start lays the
// batches of the tail over the segment.
//
// The tail is never synced. So no caller waits for a page during a sync of the segment. One can
// wait if the system has written a page by itself, as after half a minute, and the disk hangs
// then. After a power failure the segments count, with those batches of the tail that go on
// behind them.

const (
	tailName = "TAIL"

	// tailChunks are filled in turns: one by callers, while the writer copies the others.
	tailChunks = 4
	chunkSize  = 256 << 10

	// chunkHeader is the bytes before the batches of a chunk: the number of the segment, the
	// offset of the first batch there, and the checksum of both.
	chunkHeader = 8 + 8 + 4

	// groupSize bounds the entries of a snapshot that share a batch.
	groupSize = 1 << 10

	// After one of yieldEvery changes, at random, a caller lets others run. Callers wait for nothing, so
	// each of them could run for 10 ms, and each other goroutine would wait for all of them. To
	// count the changes would take longer: the processors would share the counter.
	yieldEvery = 16

	// maxBehind bounds the place of a chunk behind the end of its segment.
	maxBehind = 2 * maxPending
)

// tail is the mapped file. Its log's mu protects it.
type tail struct {
	region region
	size   int   // bytes of a chunk
	free   []int // offsets of chunks for callers
	kept   bool  // some of these have changes that could not be written; no caller gets them now
}

// newTail makes the tail of a directory, nil if the system cannot map it or the disk has no
// room. Then the writer writes each batch before the answer.
func newTail(f files, dir string, size int) *tail {
	r := f.region(filepath.Join(dir, tailName), tailChunks*size)
	if r == nil {
		return nil
	}
	t := &tail{region: r, size: size}
	for i := range tailChunks {
		r.touch(i*size, size)
		t.free = append(t.free, i*size)
	}
	return t
}

// settle copies the newest batch to the tail, and empties it. It reports false if the writer
// must write the batch. l.mu is held.
func (l *log) settle(b *batch) bool {
	if l.tail == nil || b.into != nil || b.done != nil || len(b.b) > cap(l.full)-len(l.full) && len(l.tail.free) == 0 {
		return false
	}
	l.room = append(append(l.room[:0], make([]byte, sealSize)...), b.b[batchSize:]...)
	if !l.store(l.room, b.count) {
		return false
	}
	b.b, b.count, b.changed = b.b[:batchSize], 0, false
	return true
}

// store seals a batch of so many entries, which stand behind sealSize bytes of room, and copies
// it to the tail. It reports false if that is not possible now. l.mu is held.
func (l *log) store(b []byte, count int64) bool {
	f := l.filling
	if f == nil || len(b) > cap(l.full)-len(l.full) {
		if f = l.fill(len(b)); f == nil {
			return false
		}
	}
	n := len(l.full)
	b = sealIn(b, l.number, f.start+int64(n), l.synced.Load())
	if !l.tail.region.store(f.chunk+chunkHeader+n, b) {
		l.close()
		l.tail = nil // a page is lost; the writer finds out about the others
		return false
	}
	l.full = l.full[:n+len(b)]
	l.count += count
	return true
}

// fill begins a chunk with room for n bytes behind all batches, nil if there is none. l.mu
// is held.
func (l *log) fill(n int) *batch {
	if l.filling != nil {
		l.close()
		signal(l.wake)
	}
	t, last := l.tail, len(l.queue)-1
	before, start := l.writing, l.offset.Load()
	if last > 0 {
		before = l.queue[last-1]
	}
	if before != nil {
		// The length of a batch that is not in the tail is known once it is being written. A
		// segment's chunks begin when it does: then the one before it is on stable storage.
		if before.into != nil || !before.inTail && before != l.writing {
			return nil
		}
		start = before.start + int64(len(before.b))
	}
	if len(t.free) == 0 || n > t.size-chunkHeader || l.service.Load()&1 != 0 {
		return nil
	}
	at := t.free[len(t.free)-1]
	var h [chunkHeader]byte
	binary.LittleEndian.PutUint64(h[:], l.number)
	binary.LittleEndian.PutUint64(h[8:], uint64(start))
	binary.LittleEndian.PutUint32(h[16:], crc32.Checksum(h[:16], castagnoli))
	if !t.region.store(at, h[:]) {
		l.tail = nil
		return nil
	}
	t.free = t.free[:len(t.free)-1]
	from := at + chunkHeader
	l.full, l.count = t.region.bytes()[from:from:at+t.size], 0
	l.filling = &batch{inTail: true, chunk: at, start: start}
	l.queue = append(l.queue[:last], l.filling, l.queue[last])
	return l.filling
}

// close ends the chunk that callers fill. l.mu is held.
func (l *log) close() {
	if f := l.filling; f != nil {
		f.b, f.count = l.full, l.count
		l.filling, l.full = nil, nil
	}
}

// release makes a chunk free again. If writing it has failed, its changes stay there until the log
// is back in service: then a snapshot has them. l.mu is held.
func (l *log) release(chunk int, err error) {
	if t := l.tail; t != nil {
		t.free = append(t.free, chunk)
		t.kept = t.kept || err != nil
	}
}

// laidOver returns the data of a segment with the batches that the tail has of it.
func laidOver(data []byte, number uint64, tail []byte) []byte {
	size := len(tail) / tailChunks
	if size <= chunkHeader {
		return data
	}
	for at := 0; at+size <= len(tail); at += size {
		c := tail[at : at+size]
		start := int64(binary.LittleEndian.Uint64(c[8:]))
		if binary.LittleEndian.Uint64(c) != number || binary.LittleEndian.Uint32(c[16:]) != crc32.Checksum(c[:16], castagnoli) ||
			start < headerSize || start > int64(len(data))+maxBehind {
			continue
		}
		for b, n := c[chunkHeader:], int64(0); n < int64(len(b)); {
			entries, _, ok := batchAt(b[n:], number, start+n)
			if !ok {
				n++ // a later batch tells that one was here
				continue
			}
			end := n + batchSize + int64(len(entries))
			if more := start + end - int64(len(data)); more > 0 {
				data = append(data, make([]byte, more)...)
			}
			copy(data[start+n:], b[n:end])
			n = end
		}
	}
	return data
}

// spinLock is a lock for some dozens of nanoseconds. Callers wait for a sync.Mutex on the
// queues of the scheduler, which takes longer than the work under it: with more callers than
// processors some goroutine is always ready, so they never spin.
type spinLock struct{ held atomic.Bool }

func (s *spinLock) Lock() {
	if !s.held.CompareAndSwap(false, true) {
		s.wait()
	}
}

// yielded is the number of callers that yield while they wait for a spinLock. They hold locks of
// histories meanwhile, so calls let them run first.
var yielded atomic.Int32

// wait looks at the lock once in a while: the holder works on the same cache line.
func (s *spinLock) wait() {
	for range 600 {
		for range 10 {
			nop()
		}
		if s.held.CompareAndSwap(false, true) {
			return
		}
	}
	yielded.Add(1)
	for tries := 0; !s.held.CompareAndSwap(false, true); tries++ {
		if tries < 1000 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
	yielded.Add(-1)
}

//go:noinline
func nop() {}

func (s *spinLock) Unlock() { s.held.Store(false) }
