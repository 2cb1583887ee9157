package weirdisk

import (
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
// whole snapshot brings it back: the system may have dropped unsynced data, and reports
// that once.
type log struct {
	files files
	dir   string
	mode  syncMode

	// service counts the times that the log went out of service and came back. It is odd
	// while the log is out of service. Every call reads it, and pending.
	service atomic.Uint64
	pending atomic.Int64 // bytes of the next batch

	mu      sync.Mutex // protects the following
	accepts bool       // entries are added: the log is in service, or a snapshot brings it back
	encoder encoder
	next    *batch // to which entries are added
	writing *batch // being written, nil if none is
	spare   []byte // for the next batch
	end     stable // the segment up to the last write
	synced  stable // the segment up to the last sync
	older   int64  // bytes of the segments before
	cause   error  // why the last write or sync failed, nil in service
	closed  bool   // by Close
	repair  int64  // failures when the last repair began

	wake   chan struct{} // the next batch must be written
	broken chan struct{} // the log went out of service

	// Only the writer changes the segment. syncMu is held to sync it and to change it.
	syncMu sync.Mutex
	file   file
	lost   error  // why the first sync of the segment failed
	header uint32 // checksum of its header
	ahead  int64  // it is allocated up to here

	stats counters
}

// counters count since Open.
type counters struct{ batches, entries, syncs, snapshots, failures atomic.Int64 }

// batch is a group of entries that one write hands over.
type batch struct {
	b       []byte // with room for the beginning of a frame
	count   int64  // entries
	changed bool   // some of them are changes of callers
	turn    *turn  // made behind the batch, or nil
	done    chan struct{}
	err     error // valid once done is closed
}

// turn makes the log go on in a new segment. seal, unless it is nil, makes the segment before
// and the new one durable in the manifest, before anything is written to the new one.
type turn struct {
	file   file
	header header
	seal   func(before stable) error
}

const (
	// maxPending bounds the entries that wait for a disk that hangs. Beyond it, calls fail.
	maxPending = 16 << 20

	// maxSpare bounds the buffer that is kept for the next batch.
	maxSpare = 1 << 20

	// allocateAhead is the number of bytes allocated at once. A sync within them
	// takes half the time of one that makes a new size durable.
	allocateAhead = 1 << 20
)

func newLog(f files, dir string, mode syncMode) *log {
	return &log{files: f, dir: dir, mode: mode, next: newBatch(nil), wake: make(chan struct{}, 1), broken: make(chan struct{}, 1)}
}

func newBatch(buffer []byte) *batch {
	return &batch{b: append(buffer[:0], make([]byte, frameSize)...), done: make(chan struct{})}
}

func (b *batch) empty() bool { return b.count == 0 && b.turn == nil }

// finish wakes those that wait for a batch, and keeps its buffer. l.mu is held.
func (l *log) finish(b *batch, err error) {
	b.err = err
	close(b.done)
	if cap(b.b) <= maxSpare {
		l.spare = b.b
	}
	b.b = nil
}

// begin makes an empty batch the next one, and returns the one before. l.mu is held.
func (l *log) begin() *batch {
	b := l.next
	l.next, l.spare = newBatch(l.spare), nil
	l.pending.Store(0)
	return b
}

// Append adds changes to the log. The memory engine calls it under its locks.
func (l *log) Append(changes []memory.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.accepts {
		return
	}
	b := l.next
	before := len(b.b)
	if b.b = l.encoder.changes(b.b, changes); len(b.b) == before {
		return // the log has it already
	}
	b.count += int64(len(changes))
	l.pending.Store(int64(len(b.b)))
	if !b.changed {
		b.changed = true
		signal(l.wake)
	}
}

// add adds a change that no caller waits for. It reports false if the log accepts none.
func (l *log) add(c *memory.Change) (bytes int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.accepts {
		return 0, false
	}
	before := len(l.next.b)
	l.next.b = l.encoder.change(l.next.b, c)
	l.next.count++
	return len(l.next.b) - before, true
}

// signal sends to a channel of one place, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enter returns the service in which a call begins, or the error of a log that is out of
// service. Nothing has changed then.
func (l *log) enter() (service uint64, err error) {
	service = l.service.Load()
	if service&1 == 0 && l.pending.Load() < maxPending {
		return service, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if service&1 == 0 {
		return 0, fmt.Errorf("%w: weirdisk: %d bytes wait to be written to %s: its disk hangs or is too slow; nothing was recorded",
			engine.ErrUnavailable, l.pending.Load(), l.dir)
	}
	return 0, fmt.Errorf("%w: weirdisk: %w; nothing was recorded", engine.ErrUnavailable, l.failure())
}

// failure returns the reason for which the log is or was out of service. l.mu is held.
func (l *log) failure() error {
	switch {
	case l.closed:
		return errClosed
	case l.cause != nil:
		return l.cause
	}
	return fmt.Errorf("%s was out of service for a moment", l.dir)
}

// wait returns once the system has all entries so far, and has synced them with SyncAlways. It
// fails if the log went out of service since the call entered.
func (l *log) wait(ctx context.Context, service uint64) error {
	l.mu.Lock()
	if l.service.Load() != service {
		defer l.mu.Unlock()
		return unknown(l.failure())
	}
	b := l.newest()
	l.mu.Unlock()
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
	if b.err != nil {
		return unknown(b.err)
	}
	return nil
}

// unknown is the error of a call that was decided in memory and may be lost on disk.
func unknown(err error) error {
	return fmt.Errorf("%w: weirdisk: %w; the call counts in memory, and may not be on disk", engine.ErrOutcomeUnknown, err)
}

// newest is the newest batch that is not done, nil if there is none. l.mu is held.
func (l *log) newest() *batch {
	if l.next.empty() {
		return l.writing
	}
	return l.next
}

// flushed returns once all entries so far are written. It fails if the log accepts none:
// entries may have been dropped.
func (l *log) flushed() error {
	l.mu.Lock()
	b := l.newest()
	if b == nil {
		defer l.mu.Unlock()
		if !l.accepts {
			return l.failure()
		}
		return nil
	}
	signal(l.wake)
	l.mu.Unlock()
	<-b.done
	return b.err
}

// run is the writer. It ends when stop is closed, after the last batch.
func (l *log) run(stop <-chan struct{}) {
	for {
		select {
		case <-l.wake:
			l.gather()
			l.flush()
		case <-stop:
			l.flush()
			return
		}
	}
}

// gather lets callers that are ready to run add their entries to the batch, as long as it
// grows. Without it most batches have one entry: the writer runs next after the first one.
func (l *log) gather() {
	for before := int64(0); ; {
		runtime.Gosched()
		now := l.pending.Load()
		if now <= before {
			return
		}
		before = now
	}
}

// flush writes the next batch.
func (l *log) flush() {
	l.mu.Lock()
	if l.next.empty() {
		l.mu.Unlock()
		return
	}
	b := l.begin()
	l.writing = b
	if b.turn != nil {
		l.encoder.begin(b.turn.header.base)
	}
	l.mu.Unlock()
	err := l.write(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failLocked(err)
	case b.turn != nil && b.turn.seal == nil && !l.closed: // later entries are in the new segment
		l.accepts = true
	}
	l.writing = nil
	l.finish(b, err)
}

// write writes a batch, and then goes on in a new segment if the batch has a turn.
func (l *log) write(b *batch) error {
	if b.count > 0 {
		l.mu.Lock()
		at, synced := l.end, l.synced.End
		l.mu.Unlock()
		at.Sum = spot{l.header, at.End}.seal(b.b, synced)
		if at.End += int64(len(b.b)); at.End > l.ahead {
			l.file.allocate(at.End, allocateAhead)
			l.ahead = at.End + allocateAhead
		}
		if _, err := l.file.Write(b.b); err != nil {
			return err
		}
		l.mu.Lock()
		l.end = at
		l.mu.Unlock()
		l.stats.batches.Add(1)
		l.stats.entries.Add(b.count)
	}
	if b.turn != nil {
		return l.make(b.turn)
	}
	if l.mode == syncAlways {
		return l.sync()
	}
	return nil
}

// make makes a turn.
func (l *log) make(t *turn) error {
	if t.seal != nil {
		err := l.sync()
		if err == nil {
			err = t.seal(l.syncedEnd())
		}
		if err != nil {
			return err
		}
	}
	l.use(t.file, &t.header)
	return nil
}

// use goes on behind the header of a segment, which is on stable storage.
func (l *log) use(f file, h *header) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.lost, l.header, l.ahead = f, nil, h.sum(), headerSize
	l.mu.Lock()
	defer l.mu.Unlock()
	l.older += l.end.End
	l.end = stable{h.number, headerSize, l.header}
	l.synced = l.end
}

// sync makes all that is written durable.
func (l *log) sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	end, done := l.end, l.synced == l.end
	l.mu.Unlock()
	if done || l.file == nil {
		return nil
	}
	if l.lost == nil { // another sync may succeed, of less
		l.lost = l.file.sync()
	}
	if l.lost != nil {
		return l.lost
	}
	l.mu.Lock()
	l.synced = end
	l.mu.Unlock()
	l.stats.syncs.Add(1)
	return nil
}

// syncedEnd is the end of what is on stable storage.
func (l *log) syncedEnd() stable {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// runSyncer syncs every so often, until stop is closed.
func (l *log) runSyncer(stop <-chan struct{}) {
	t := time.NewTicker(time.Duration(l.mode))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if l.service.Load()&1 == 0 {
				if err := l.sync(); err != nil {
					l.fail(err)
				}
			}
		case <-stop:
			return
		}
	}
}

// fail takes the log out of service.
func (l *log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

// failLocked takes the log out of service. The next batch is dropped, and its callers get the
// error. l.mu is held.
func (l *log) failLocked(err error) {
	l.stats.failures.Add(1)
	l.accepts, l.cause = false, err
	if l.service.Load()&1 == 0 {
		l.service.Add(1)
	}
	l.finish(l.begin(), err)
	signal(l.broken)
}

// turn makes the entries from now on go into a new segment, and returns once the log goes on
// there. After a failure, without a seal, the log accepts entries again.
func (l *log) turn(t *turn) error {
	l.mu.Lock()
	if !l.accepts && t.seal != nil || l.closed {
		defer l.mu.Unlock()
		return l.failure()
	}
	l.repair = l.stats.failures.Load()
	b := l.next
	b.turn = t
	signal(l.wake)
	l.mu.Unlock()
	<-b.done
	return b.err
}

// restore puts the log back into service, unless something has failed during the repair.
func (l *log) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stats.failures.Load() != l.repair {
		return
	}
	l.cause = nil
	if !l.closed {
		l.service.Add(1)
	}
}

// abandon closes the segment of a repair that has failed.
func (l *log) abandon() {
	l.mu.Lock()
	l.accepts = false
	l.mu.Unlock()
	l.flushed() // the error is that of the failure
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.file.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.end, l.synced = nil, stable{}, stable{}
}

// shut takes the log out of service for good. Accepted entries are still written.
func (l *log) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.accepts = true, false
	if l.service.Load()&1 == 0 {
		l.service.Add(1)
	}
}

// size is the bytes of all segments.
func (l *log) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.older + l.end.End
}
