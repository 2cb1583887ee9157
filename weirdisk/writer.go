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
// A call passes three points. enter rejects it while the log is out of service, before it has
// changed anything. The memory engine decides it and calls Append, under the locks of the
// histories. Then wait returns once the batch with its entries is written.
//
// A write or a sync that fails takes the log out of service. Then only a repair brings it back: a
// new segment with a whole snapshot. The system may have dropped unsynced data, and it reports
// that only once.
//
// Three goroutines use the log besides the callers: the writer (run), the syncer of SyncEvery, and
// the keeper, which takes snapshots. Locks are taken in this order: those of the memory engine,
// syncMu, mu.
type log struct {
	files files
	dir   string
	mode  time.Duration // time between syncs, or syncAlways

	// service counts the times that the log went out of service and came back. It is odd
	// while the log is out of service. A call remembers the value with which it began. Another
	// value at its end means that its entries may have been dropped.
	service atomic.Uint64
	pending atomic.Int64 // bytes of the next batch, 0 until a call has added to it

	mu      sync.Mutex // protects the following
	accepts bool       // entries are added: in service, or once a repair has begun its segment
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

	// Only the writer changes the segment, under syncMu. The syncer holds it for a sync.
	syncMu  sync.Mutex
	segment openSegment
}

// openSegment is the segment to which the log writes.
type openSegment struct {
	file      file
	header    uint32 // checksum of its header
	allocated int64  // offset up to which the file is allocated
	lost      error  // why a sync failed, or nil
}

// batch is a group of entries that one write hands over.
type batch struct {
	b        []byte    // frameSize bytes of room, then the entries
	count    int64     // number of entries
	rollover *rollover // follows the batch, or nil
	done     chan struct{}
	err      error // valid once done is closed
}

// rollover is the change from one segment to the next, between two batches.
type rollover struct {
	to     *header
	commit func() error // the writer calls it between the batches; it calls startSegment or fails
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
	return &log{
		files:   f,
		dir:     dir,
		mode:    mode,
		next:    newBatch(nil),
		written: done,
		wake:    make(chan struct{}, 1),
	}
}

func newBatch(spare []byte) *batch {
	return &batch{b: append(spare[:0], make([]byte, frameSize)...), done: make(chan struct{})}
}

// finish wakes the callers that wait for a batch, and drops its bytes.
func (b *batch) finish(err error) {
	b.b, b.err = nil, err
	close(b.done)
}

// takeNext returns the next batch, and makes an empty one the next. l.mu is held.
func (l *log) takeNext() *batch {
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
		return 0, fmt.Errorf("%w: weirdisk: %w; nothing was recorded",
			engine.ErrUnavailable, l.failure())
	case l.pending.Load() >= maxPending:
		return 0, fmt.Errorf("%w: weirdisk: %d bytes wait to be written to %s: "+
			"its disk hangs or is too slow; nothing was recorded",
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
	b := l.newest()
	dropped := l.service.Load() != service // or written before the log went out of service
	l.mu.Unlock()
	if dropped {
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
		return fmt.Errorf("%w: weirdisk: %w; the call counts in memory, and may not be on disk",
			engine.ErrOutcomeUnknown, err)
	}
	return nil
}

// newest is the batch of the last entry. l.mu is held.
func (l *log) newest() *batch {
	if l.next.count == 0 && l.next.rollover == nil {
		return l.written
	}
	return l.next
}

// awaitWritten returns once all entries so far are written. It fails if the log accepts no entries,
// because some may have been dropped.
func (l *log) awaitWritten() error {
	l.mu.Lock()
	accepts := l.accepts
	b := l.newest()
	l.mu.Unlock()
	return l.awaitBatch(b, accepts)
}

// rollOver returns once all entries so far are written, and the log has gone over to another
// segment: all further entries go there. While the log accepts no entries, it goes over only to a
// segment that repairs.
func (l *log) rollOver(r *rollover) error {
	l.mu.Lock()
	accepts := l.accepts || r.to.repair && !l.closed
	if accepts {
		l.next.rollover = r
	}
	b := l.newest()
	l.mu.Unlock()
	return l.awaitBatch(b, accepts)
}

// awaitBatch wakes the writer and waits for a batch. It fails if the batch does, or if the log has
// not accepted what the caller would wait for.
func (l *log) awaitBatch(b *batch, accepted bool) error {
	signal(l.wake)
	<-b.done
	if b.err == nil && !accepted {
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
	b := l.takeNext()
	l.written = b
	if b.rollover != nil {
		l.encoder.begin(b.rollover.to.base) // entries of the batch behind it are in the new segment
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

// write writes a batch, syncs it with SyncAlways, and goes over to another segment if that follows.
func (l *log) write(b *batch) error {
	if b.count > 0 {
		if err := l.writeFrame(b); err != nil {
			return err
		}
	}
	switch {
	case b.rollover != nil:
		return b.rollover.commit()
	case l.mode == syncAlways && b.count > 0:
		_, err := l.sync()
		return err
	}
	return nil
}

// writeFrame writes the entries of a batch as a frame behind the segment's end.
func (l *log) writeFrame(b *batch) error {
	l.mu.Lock()
	at, synced := l.end, l.synced.End
	l.mu.Unlock()
	s := &l.segment
	at.Sum = seal(b.b, s.header, at.End, synced)
	at.End += int64(len(b.b))
	if at.End > maxSegment {
		return fmt.Errorf("segment %d of %s is full", at.Number, l.dir)
	}
	if at.End > s.allocated {
		s.file.allocate(at.End, allocateAhead)
		s.allocated = at.End + allocateAhead
	}
	if _, err := s.file.Write(b.b); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = at
	l.stats.Batches++
	l.stats.Entries += b.count
	return nil
}

// startSegment makes the log write behind the header of a segment, which is on stable storage. In a
// segment that repairs, the log accepts entries again.
func (l *log) startSegment(f file, h *header) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.segment.file != nil {
		l.segment.file.Close()
	}
	l.segment = openSegment{file: f, header: h.sum(), allocated: headerSize}
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
	s := &l.segment
	if s.lost == nil { // a sync after a failed one may succeed without the lost bytes
		s.lost = s.file.sync()
	}
	if s.lost != nil {
		return end, s.lost
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
	l.takeNext().finish(err)
}

// recordSnapshot counts a snapshot, which replaces all earlier segments. After a repair it puts the
// log back into service, unless a write or a sync has failed meanwhile. If the snapshot failed, a
// log in service remains there and grows.
func (l *log) recordSnapshot(repair bool, err error) {
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

// endService takes the log out of service for good. Accepted entries are still written.
func (l *log) endService() {
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
