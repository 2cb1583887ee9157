package weirdisk

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
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
	step  int64 // bytes that are allocated at once

	// service counts the times that the log went out of service and came back. It is odd
	// while the log is out of service.
	service atomic.Uint64 // every call reads the next three
	pending atomic.Int64  // bytes of the newest batch, if the writer must write it

	// waiting is set while the system does not have all changes: always with SyncAlways.
	waiting atomic.Bool

	*head            // its mu protects the following too
	queue   []*batch // to be written; entries are added to the last, which may be empty
	writing *batch   // being written, nil if none is
	filling *batch   // the one before the last, if callers fill its chunk of the tail, or nil
	tail    *tail    // nil with SyncAlways, and where there is none
	cause   error    // of the last failure, nil in service
	closed  bool     // by Close
	repair  int64    // failures when the last repair began

	spare *batch // to be used again, or nil
	room  []byte // of settle

	wake   chan struct{} // the queue has entries for the writer
	broken chan struct{} // the log went out of service

	// The goroutine that set writing alone writes to the segment and changes it. syncMu is
	// held to sync it and to change it.
	syncMu sync.Mutex
	file   file
	lost   error // of the first sync of the segment that failed
	number uint64
	ahead  int64        // the segment is allocated up to here; used by the writer only
	offset atomic.Int64 // bytes of the segment
	synced atomic.Int64 // bytes of it on stable storage
	older  atomic.Int64 // bytes of the segments before

	stats counters
}

// head is the part of a log that each Append changes. It is allocated alone, so that its first
// 64 bytes are one cache line. Processors take turns at it, and each further line would cost
// as much as the work.
type head struct {
	mu      spinLock // protects the following
	accepts bool     // entries are added: the log is in service, or a snapshot brings it back
	full    []byte   // the batches in the chunk that callers fill
	count   int64    // entries in it
	encoder encoder
	_       [40]byte // objects of 128 bytes begin at a cache line
}

// counters count since Open.
type counters struct{ batches, entries, syncs, snapshots, failures atomic.Int64 }

// batch is a group of entries that one write hands over.
type batch struct {
	b       []byte // with room for the beginning
	count   int64  // entries
	changed bool   // some of them are changes of callers, which the system does not have
	into    *segment
	done    chan struct{} // made for the first that waits
	err     error         // valid once done is closed

	start  int64 // offset in the segment, once it is being written or in the tail
	inTail bool  // b is in a chunk of the tail, as batches that are sealed
	chunk  int   // offset of the chunk
}

// segment is a new file, into which the batches from one on go.
type segment struct {
	file   file
	header header
}

const (
	// maxPending bounds the entries that wait for a disk that hangs. Beyond it, calls fail.
	maxPending = 16 << 20

	// maxSpare bounds the buffer that is kept for the next batch.
	maxSpare = 1 << 20

	// allocateAhead is the bytes for which a segment is allocated at once. A sync within them
	// takes half the time of one that makes a new size durable.
	allocateAhead = 1 << 20
)

// newBatch returns an empty batch. l.mu is held.
func (l *log) newBatch() *batch {
	b := l.spare
	l.spare = nil
	if b == nil {
		b = &batch{b: make([]byte, batchSize)}
	}
	return b
}

// finished is closed once the batch is written, or has failed. l.mu is held.
func (b *batch) finished() <-chan struct{} {
	if b.done == nil {
		b.done = make(chan struct{})
	}
	return b.done
}

// finish wakes those that wait for a batch, and keeps its buffer for another.
// l.mu is held.
func (l *log) finish(b *batch, err error) {
	if b.inTail {
		l.release(b.chunk, err)
		if b.done != nil {
			b.err = err
			close(b.done)
		}
		return
	}
	buffer := b.b[:batchSize]
	if b.done != nil {
		b.err = err
		close(b.done)
		b = new(batch)
	}
	if cap(buffer) <= maxSpare {
		*b = batch{b: buffer}
		l.spare = b
	}
}

func (b *batch) empty() bool { return b.count == 0 && b.into == nil && !b.inTail }

// last is the batch to which entries are added. l.mu is held.
func (l *log) last() *batch { return l.queue[len(l.queue)-1] }

// Append adds changes to the log. The memory engine calls it under its locks.
func (l *log) Append(changes []memory.Change) {
	n := int64(len(changes))
	l.mu.Lock()
	b := l.last()
	switch {
	case !l.accepts:
	case l.tail == nil || !b.empty():
		before := len(b.b)
		if b.b = l.encoder.changes(b.b, changes); len(b.b) == before {
			break // the log has it already, and a batch without entries would be taken for damage
		}
		if b.count += n; !l.settle(b) {
			l.hold(b)
		}
	default:
		room := changes[0].Room
		if len(room) < sealSize {
			room = make([]byte, sealSize, 256)
		}
		room = l.encoder.changes(room[:sealSize], changes)
		changes[0].Room = room
		if len(room) > sealSize && !l.store(room, n) { // as above
			b.b = append(b.b, room[sealSize:]...)
			b.count += n
			l.hold(b)
		}
	}
	l.mu.Unlock()
}

// hold leaves a batch with changes to the writer. l.mu is held.
func (l *log) hold(b *batch) {
	l.pending.Store(int64(len(b.b)))
	if !b.changed {
		b.changed = true
		l.waiting.Store(true)
		signal(l.wake)
	}
}

// add adds an entry that encode appends, which no caller waits for. It reports false if the
// log accepts none.
func (l *log) add(encode func(e *encoder, b []byte) []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.accepts {
		return false
	}
	b := l.last()
	b.b = encode(&l.encoder, b.b)
	if b.count++; len(b.b) > groupSize {
		l.settle(b)
	}
	return true
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
	if yielded.Load() > 0 {
		runtime.Gosched()
	}
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
	if !l.waiting.Load() && l.service.Load() == service {
		if rand.Uint32()%yieldEvery == 0 {
			runtime.Gosched()
		}
		return nil
	}
	l.mu.Lock()
	if l.service.Load() != service {
		err := unknown(l.failure())
		l.mu.Unlock()
		return err
	}
	b := l.newest()
	if b == nil {
		l.mu.Unlock()
		return nil
	}
	if !b.changed { // no caller has asked for it so far
		signal(l.wake)
	}
	done := b.finished()
	l.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
	if b.err != nil {
		return unknown(b.err)
	}
	return nil
}

// take removes the oldest batch from the queue to write it. l.mu is held.
func (l *log) take() *batch {
	b := l.queue[0]
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = append(l.queue, l.newBatch())
		l.pending.Store(0)
	}
	l.writing = b
	switch {
	case b == l.filling:
		l.close()
	case !b.inTail:
		b.start = l.offset.Load()
		l.waiting.Store(true) // the tail goes on behind it
	}
	return b
}

// newest is the newest batch that is not done, nil if there is none. l.mu is held.
func (l *log) newest() *batch {
	for _, b := range slices.Backward(l.queue) {
		if !b.empty() {
			return b
		}
	}
	return l.writing
}

// flushed returns once all entries so far are written. It fails if the log accepts none:
// entries may have been dropped.
func (l *log) flushed() error {
	if b, done := l.request(); b != nil {
		<-done
		return b.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.accepts {
		return l.failure()
	}
	return nil
}

// request makes the writer write all entries so far. It returns the newest batch, nil if
// all are written, and its end.
func (l *log) request() (newest *batch, done <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.last(); !b.empty() {
		l.settle(b)
	}
	if newest = l.newest(); newest != nil {
		done = newest.finished()
		signal(l.wake)
	}
	return newest, done
}

// unknown is the error of a call that was decided in memory and may be lost on disk.
func unknown(err error) error {
	return fmt.Errorf("%w: weirdisk: %w; the call counts in memory, and may not be on disk", engine.ErrOutcomeUnknown, err)
}

// flush writes the oldest batch of the queue and reports whether it did. Unless all is set,
// it leaves one that nobody waits for. Only the writer calls it.
func (l *log) flush(all bool) bool {
	l.mu.Lock()
	if !all && !l.due() || l.queue[0].empty() {
		l.mu.Unlock()
		return false
	}
	b, t := l.take(), l.tail
	l.mu.Unlock()
	err := l.write(b)
	if b.inTail && t != nil && err == nil {
		t.region.touch(b.chunk, t.size)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failLocked(err)
	}
	l.writing = nil
	l.finish(b, err)
	l.waiting.Store(l.mode == syncAlways || slices.ContainsFunc(l.queue, func(b *batch) bool { return b.changed }))
	return true
}

// due reports whether the oldest batch must be written: the system does not have it, its
// chunk is full, or it stands before one that somebody waits for. l.mu is held.
func (l *log) due() bool {
	b := l.queue[0]
	return l.mode == syncAlways || l.waiting.Load() || b.inTail && b != l.filling ||
		slices.ContainsFunc(l.queue, func(b *batch) bool { return b.done != nil || b.into != nil })
}

// write writes a batch, into a new segment if the batch begins one.
func (l *log) write(b *batch) error {
	if b.into != nil {
		if err := l.change(b.into); err != nil {
			return err
		}
	}
	if !b.inTail {
		seal(b.b, l.number, l.offset.Load(), l.synced.Load())
	}
	if end := l.offset.Load() + int64(len(b.b)); end > l.ahead {
		l.ahead = end + l.step
		l.file.allocate(end, l.step)
	}
	if len(b.b) == 0 { // of a chunk that nothing could be copied to
		return nil
	}
	if _, err := l.file.Write(b.b); err != nil {
		return err
	}
	l.wrote(b)
	if l.mode == syncAlways {
		return l.sync()
	}
	return nil
}

// wrote counts a batch that is in the segment.
func (l *log) wrote(b *batch) {
	l.offset.Add(int64(len(b.b)))
	l.stats.batches.Add(1)
	l.stats.entries.Add(b.count)
}

// change goes on in a new segment. The whole old one is on stable storage before, unless
// the new one tells readers that it may not be.
func (l *log) change(s *segment) error {
	if !s.header.untrusted {
		if err := l.sync(); err != nil {
			s.file.Close()
			return err
		}
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.older.Add(l.offset.Load())
	}
	l.file, l.number, l.ahead, l.lost = s.file, s.header.number, headerSize, nil
	l.offset.Store(headerSize)
	l.synced.Store(headerSize)
	return nil
}

// sync makes all that is written durable.
func (l *log) sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	offset := l.offset.Load()
	if l.file == nil || l.synced.Load() == offset {
		return nil
	}
	if l.lost == nil { // another sync may succeed, of less
		l.lost = l.file.sync()
	}
	if l.lost != nil {
		return l.lost
	}
	l.synced.Store(offset)
	l.stats.syncs.Add(1)
	return nil
}

// fail takes the log out of service.
func (l *log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

// failLocked takes the log out of service. The queue is dropped, and its callers get the
// error. l.mu is held.
func (l *log) failLocked(err error) {
	l.stats.failures.Add(1)
	l.accepts, l.cause = false, err
	if l.service.Load()&1 == 0 {
		l.service.Add(1)
	}
	for _, b := range l.queue {
		if b.into != nil {
			b.into.file.Close()
		}
		l.finish(b, err)
	}
	l.close()
	l.queue = []*batch{l.newBatch()}
	l.pending.Store(0)
	signal(l.broken)
}

// restore puts the log back into service, unless something has failed during the repair.
func (l *log) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stats.failures.Load() != l.repair {
		return
	}
	l.cause = nil
	if t := l.tail; t != nil {
		t.kept = false
	}
	if !l.closed {
		l.service.Add(1)
	}
}

// run is the writer. It ends when stop is closed, after the last batch.
func (l *log) run(stop <-chan struct{}) {
	for {
		select {
		case <-l.wake:
			for more := true; more; {
				l.gather()
				more = l.flush(false)
			}
		case <-stop:
			for l.flush(true) {
			}
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

// runSyncer syncs every so often, until stop is closed.
func (l *log) runSyncer(stop <-chan struct{}) {
	t := time.NewTicker(time.Duration(l.mode))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			l.flushed() // the error is that of the failure
			if err := l.sync(); err != nil {
				l.fail(err)
			}
		case <-stop:
			return
		}
	}
}

// begin makes the entries from now on go into a new segment, which begins with the instant.
// After a failure the log accepts entries again.
func (l *log) begin(h header) error {
	s, err := l.create(h)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if !l.accepts && !h.untrusted || l.closed {
		err := l.failure()
		l.mu.Unlock()
		s.file.Close()
		l.files.remove(segmentPath(l.dir, h.number))
		return err
	}
	defer l.mu.Unlock()
	if !l.last().empty() {
		l.queue = append(l.queue, l.newBatch())
	}
	b := l.last()
	b.into = s
	l.accepts, l.repair = true, l.stats.failures.Load()
	l.encoder.begin(h.base)
	b.b = l.encoder.instant(append(b.b, entryClock), h.base)
	b.count++
	signal(l.wake)
	return nil
}

// reopen opens a segment to go on behind its last whole batch, durable up to there.
func (l *log) reopen(s *stored) (*segment, error) {
	if err := l.files.truncate(s.path, s.end); err != nil {
		return nil, err
	}
	f, err := l.harden(s)
	if err != nil {
		return nil, err
	}
	return &segment{f, s.header}, nil
}

// harden opens a segment behind its last whole batch, durable with its name. The process
// that made it may have ended before, or after a sync that failed. After such a sync the
// system may take for durable what it has in memory only, so that is written again.
func (l *log) harden(s *stored) (file, error) {
	f, err := l.files.open(s.path, s.durable)
	if err != nil {
		return nil, err
	}
	if rest := s.data[s.durable:s.end]; len(rest) > 0 {
		_, err = f.Write(rest)
	}
	if err == nil {
		err = f.sync()
	}
	if err == nil {
		err = l.files.syncDir(l.dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
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

// abandon removes a segment without acknowledged changes. The log is out of service.
func (l *log) abandon(number uint64) {
	l.mu.Lock()
	l.accepts = false
	l.mu.Unlock()
	l.flushed() // the error is that of the failure
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.file != nil && l.number == number {
		l.file.Close()
		l.file = nil
		l.offset.Store(0)
	}
	l.files.remove(segmentPath(l.dir, number))
}

// create makes a segment with its header, durable with its name.
func (l *log) create(h header) (*segment, error) {
	path := segmentPath(l.dir, h.number)
	f, err := l.files.create(path)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(h.append(nil)); err == nil {
		err = f.sync()
	}
	if err == nil {
		err = l.files.syncDir(l.dir)
	}
	if err != nil {
		f.Close()
		l.files.remove(path)
		return nil, err
	}
	return &segment{f, h}, nil
}

// end adds the end of a snapshot of so many histories and operations.
func (l *log) end(count int) bool {
	return l.add(func(e *encoder, b []byte) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(append(b, entrySnapshot), e.counted), uint64(count))
	})
}

// size is the bytes of all segments.
func (l *log) size() int64 { return l.older.Load() + l.offset.Load() }

// suffix ends the names of segments.
const suffix = ".weirlog"

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016d%s", number, suffix))
}
