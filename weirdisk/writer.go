package weirdisk

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// log writes entries in batches: entries that arrive while a batch is written form the
// next one. It is the journal of the memory engine.
//
// A write or a sync that fails takes the log out of service. Then only a new segment with a
// whole snapshot brings it back: the system may have dropped unsynced data, and it reports
// that only once.
type log struct {
	files files
	dir   string
	mode  time.Duration // time between syncs, or syncAlways

	// service counts the times that the log went out of service and came back. It is odd
	// while the log is out of service. Every call reads it, and pending.
	service atomic.Uint64
	pending atomic.Int64 // bytes of the next batch

	mu      sync.Mutex // protects the following
	accepts bool       // entries are added: the log is in service, or a snapshot brings it back
	encoder encoder
	next    *batch // entries are added to it
	written *batch // the batch before next: it is being written, or done
	spare   []byte // bytes of a finished batch, reused for a new one
	end     stable // the segment up to the last write
	synced  stable // the segment up to the last sync
	older   int64  // bytes of the segments before
	cause   error  // why the last write or sync failed, nil in service
	stuck   error  // why the last snapshot failed while the log was in service, or nil
	closed  bool   // Close was called
	stats   Stats  // without Bytes

	wake chan struct{} // the next batch must be written

	// Only the writer changes the segment. syncMu is held to sync it and to change it.
	syncMu sync.Mutex
	file   file
	lost   error  // why a sync of the segment failed, or nil
	header uint32 // checksum of the segment's header
	ahead  int64  // offset up to which the file is allocated
}

// batch is a group of entries that one write hands over.
type batch struct {
	b     []byte       // frameSize bytes of room, then the entries
	count int64        // number of entries
	next  *header      // the segment in which the log goes on behind the batch, or nil
	turn  func() error // goes on there
	done  chan struct{}
	err   error // valid once done is closed
}

const (
	// maxPending bounds the bytes that wait for a disk that hangs. Beyond it, calls fail.
	maxPending = 16 << 20

	// maxSpare bounds the buffer that is kept for the next batch.
	maxSpare = 1 << 20

	// allocateAhead is the number of bytes that are allocated in one step. A sync within them
	// takes half the time of a sync that makes a new size durable.
	allocateAhead = 1 << 20
)

func newLog(f files, dir string, mode time.Duration) *log {
	done := newBatch(nil)
	close(done.done)
	return &log{files: f, dir: dir, mode: mode, next: newBatch(nil), written: done, wake: make(chan struct{}, 1)}
}

func newBatch(spare []byte) *batch {
	return &batch{b: append(spare[:0], make([]byte, frameSize)...), done: make(chan struct{})}
}

// finish wakes the callers that wait for a batch, and drops its bytes.
func (b *batch) finish(err error) {
	b.b, b.err = nil, err
	close(b.done)
}

// begin makes an empty batch the next one, and returns the batch that was next. l.mu is held.
func (l *log) begin() *batch {
	b := l.next
	l.next, l.spare = newBatch(l.spare), nil
	l.pending.Store(0)
	return b
}

// Append adds changes to the log. The memory engine calls it under its locks.
func (l *log) Append(changes []memory.Change) { l.add(changes, true) }

// add adds changes of a caller, which waits for them, or of a snapshot. They are in one batch, so
// a restart finds all of them or none. add reports false if the log accepts no changes.
func (l *log) add(changes []memory.Change, ofCaller bool) (bytes int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.accepts {
		return 0, false
	}
	b := l.next
	before := len(b.b)
	for i := range changes {
		b.b = l.encoder.change(b.b, &changes[i])
	}
	if bytes = len(b.b) - before; bytes == 0 {
		return 0, true // the log has them already
	}
	b.count += int64(len(changes))
	if ofCaller && l.pending.Swap(int64(len(b.b))) == 0 { // the first of the batch
		signal(l.wake)
	}
	return bytes, true
}

// signal sends to a channel of one place, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enter returns the value of l.service for a call that begins. It returns an error if the log is
// out of service or too many bytes wait; then the call must change nothing.
func (l *log) enter() (service uint64, err error) {
	switch service = l.service.Load(); {
	case service&1 != 0:
		return 0, fmt.Errorf("%w: weirdisk: %w; nothing was recorded", engine.ErrUnavailable, l.failure())
	case l.pending.Load() >= maxPending:
		return 0, fmt.Errorf("%w: weirdisk: %d bytes wait to be written to %s: its disk hangs or is too slow; nothing was recorded",
			engine.ErrUnavailable, l.pending.Load(), l.dir)
	}
	return service, nil
}

// outOfService reports whether calls fail.
func (l *log) outOfService() bool { return l.service.Load()&1 != 0 }

// failure returns the reason why the log is or was out of service.
func (l *log) failure() error {
	return cmp.Or(l.problem(), fmt.Errorf("%s was out of service for a moment", l.dir))
}

// problem returns the reason why the log is out of service, or why it grows without snapshots, or
// nil.
func (l *log) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	return cmp.Or(l.cause, l.stuck)
}

// wait returns once all entries so far are written, and with SyncAlways synced. It fails if the
// log went out of service since the call entered.
func (l *log) wait(ctx context.Context, service uint64) (err error) {
	l.mu.Lock()
	b, left := l.newest(), l.service.Load() != service
	l.mu.Unlock()
	if left {
		err = l.failure()
	} else {
		select {
		case <-b.done:
			err = b.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("%w: weirdisk: %w; the call counts in memory, and may not be on disk", engine.ErrOutcomeUnknown, err)
	}
	return nil
}

// newest is the batch of the last entry. l.mu is held.
func (l *log) newest() *batch {
	if l.next.count == 0 && l.next.next == nil {
		return l.written
	}
	return l.next
}

// flushed returns once all entries so far are written. It fails if the log accepts no entries,
// because some may have been dropped.
func (l *log) flushed() error { return l.goOn(nil, nil) }

// goOn returns once all entries so far are written. All further ones go into the next segment, unless
// it is nil. The writer calls turn between them, which fails or calls use. Only a segment that repairs is
// begun while the log accepts no entries.
func (l *log) goOn(next *header, turn func() error) error {
	l.mu.Lock()
	refused := !l.accepts && (next == nil || !next.repair || l.closed)
	if !refused && next != nil {
		l.next.next, l.next.turn = next, turn
	}
	b := l.newest()
	l.mu.Unlock()
	signal(l.wake)
	if <-b.done; b.err == nil && refused {
		return l.failure()
	}
	return b.err
}

// run is the writer. It ends when wake is closed, after the last batch.
func (l *log) run() {
	for range l.wake {
		l.gather()
		l.flush()
	}
	l.flush()
}

// gather lets callers that are ready to run add their entries to the batch, as long as it
// grows. Without it most batches have one entry, because the writer runs right after the first.
func (l *log) gather() {
	before := int64(0)
	for runtime.Gosched(); l.pending.Load() > before; runtime.Gosched() {
		before = l.pending.Load()
	}
}

// flush writes the next batch, which may be empty.
func (l *log) flush() {
	l.mu.Lock()
	b := l.begin()
	l.written = b
	if b.next != nil {
		l.encoder.begin(b.next.base)
	}
	l.mu.Unlock()
	err := l.write(b)
	if err != nil {
		l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(b.b) <= maxSpare {
		l.spare = b.b
	}
	b.finish(err)
}

// write writes a batch, and then goes on in the segment that follows it.
func (l *log) write(b *batch) error {
	if b.count > 0 {
		l.mu.Lock()
		at, synced := l.end, l.synced.End
		l.mu.Unlock()
		at.Sum = seal(b.b, l.header, at.End, synced)
		if at.End += int64(len(b.b)); at.End > maxSegment {
			return fmt.Errorf("segment %d of %s is full", at.Number, l.dir)
		}
		if at.End > l.ahead {
			l.file.allocate(at.End, allocateAhead)
			l.ahead = at.End + allocateAhead
		}
		if _, err := l.file.Write(b.b); err != nil {
			return err
		}
		l.mu.Lock()
		l.end = at
		l.stats.Batches++
		l.stats.Entries += b.count
		l.mu.Unlock()
	}
	switch {
	case b.next != nil:
		return b.turn()
	case l.mode == syncAlways && b.count > 0:
		_, err := l.sync()
		return err
	}
	return nil
}

// use makes the log go on behind the header of a segment. The header is on stable storage. In a segment
// that repairs, the log accepts entries again.
func (l *log) use(f file, h *header) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.lost, l.header, l.ahead = f, nil, h.sum(), headerSize
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepts = l.accepts || h.repair && !l.closed
	l.older += l.end.End
	l.end, l.synced = h.start(), h.start()
}

// sync makes all written bytes durable, and returns their end.
func (l *log) sync() (end stable, err error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	end, done := l.end, l.synced == l.end
	l.mu.Unlock()
	if done {
		return end, nil
	}
	if l.lost == nil { // a sync after a failed one may succeed without the lost bytes
		l.lost = l.file.sync()
	}
	if l.lost != nil {
		return end, l.lost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = end
	l.stats.Syncs++
	return end, nil
}

// syncOrFail is sync, and takes the log out of service if that fails.
func (l *log) syncOrFail() (end stable, err error) {
	if end, err = l.sync(); err != nil {
		l.fail(err)
	}
	return end, err
}

// runSyncer syncs every so often, until stop is closed.
func (l *log) runSyncer(stop <-chan struct{}) {
	t := time.NewTicker(l.mode)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if !l.outOfService() {
				l.syncOrFail()
			}
		case <-stop:
			return
		}
	}
}

// fail takes the log out of service. The next batch is dropped, and its callers get the error.
func (l *log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Failures++
	l.accepts, l.cause = false, err
	l.service.Or(1)
	l.begin().finish(err)
}

// conclude counts a snapshot, which replaces all earlier segments. After a repair it puts the
// log back into service, unless a write or a sync has failed meanwhile. If the snapshot failed, a
// log in service remains there and grows.
func (l *log) conclude(repair bool, err error) {
	if err != nil && repair {
		l.fail(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck = err; err != nil {
		l.stats.Failures++
		return
	}
	l.stats.Snapshots++
	l.older = 0
	if repair && l.accepts {
		l.cause = nil
		l.service.Add(1)
	}
}

// shut takes the log out of service for good. Accepted entries are still written.
func (l *log) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.accepts = true, false
	l.service.Or(1)
}

// size is the bytes of all segments.
func (l *log) size() int64 { return l.counts().Bytes }

// counts returns the counts, with the size of all segments now.
func (l *log) counts() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Bytes = l.older + l.end.End
	return s
}
