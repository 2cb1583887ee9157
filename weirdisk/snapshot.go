package weirdisk

import (
	"errors"
	"io/fs"
	"time"

	"github.com/weirlimit/weir/internal/memory"
)

const (
	// A snapshot follows once the changes since the last one take half as many bytes as it,
	// and at least minGrowth.
	minGrowth = 4 << 20

	// snapshotPause times the duration of a snapshot passes before the next one, unless the
	// directory would hold more than maxRatio times the bytes of live histories, and more than
	// smallSize.
	snapshotPause = 10
	maxRatio      = 3
	smallSize     = 4 * minGrowth

	// keeperTick is the time between two looks at the log's size, and between two attempts
	// to bring it back into service.
	keeperTick = 200 * time.Millisecond

	// idleTick is the time after which a log that is mostly over is written anew, although
	// it does not grow.
	idleTick = time.Minute

	// A step of a snapshot visits a few histories, each under its own lock, and a bounded
	// number of entries. After snapshotBatch bytes it waits for the writer. So callers wait for
	// no more to be written, and those that wait for a processor wait for no more steps.
	snapshotStep  = 32
	snapshotBatch = 16 << 10
)

// keeper takes snapshots, deletes segments and brings the log back into service.
type keeper struct {
	log    *log
	memory *memory.Memory
	stop   <-chan struct{} // set by run
	now    chan struct{}   // requests a snapshot
	ready  chan struct{}   // closed when the engine may be used

	newest  uint64 // the highest number of a segment so far
	current uint64 // the segment with the newest acknowledged changes
	oldest  uint64 // no segment has a lower number
	size    int64  // bytes of the last snapshot, with the changes of callers meanwhile
	pure    int64  // bytes of it without them
	count   int    // histories and operations in it

	growth int64         // minGrowth; tests take snapshots sooner
	tick   time.Duration // keeperTick
}

// run keeps the log until stop is closed.
func (k *keeper) run(stop <-chan struct{}) {
	k.stop = stop
	// A process may be killed soon, again and again. Beside its callers it may never complete a
	// snapshot, so one that is overdue comes before them. In memory histories take about three
	// times the bytes of a snapshot.
	if k.log.size() > k.memory.Bytes()+smallSize {
		k.snapshot(false)
	}
	close(k.ready)
	t := time.NewTicker(k.tick)
	defer t.Stop()
	var rest, idle time.Time // no snapshot before rest, no look at the memory before idle
	idle = time.Now().Add(idleTick)
	if k.due(true) { // a program may end before each first tick, and its log would grow for ever
		signal(k.now)
	}
	for {
		var now time.Time
		k.log.request() // for changes without a waiting caller
		select {
		case <-stop:
			return
		case <-k.log.broken:
			k.repair()
			continue
		case <-k.now:
			k.snapshot(false)
			continue
		case now = <-t.C:
		}
		due := k.due(now.After(rest))
		if !due && now.After(idle) {
			idle = now.Add(idleTick)
			k.memory.Sweep()
			due = k.log.size() > k.growth/4 && k.memory.Len() < k.count/2
		}
		switch {
		case k.log.service.Load()&1 != 0:
			k.repair()
		case due:
			began := time.Now()
			k.snapshot(false)
			rest = time.Now().Add(snapshotPause * time.Since(began))
		}
	}
}

// due reports whether the log has grown enough for a snapshot. Before the rest after the last
// one is over, it must begin only so that the bytes at its end stay within maxRatio.
func (k *keeper) due(rested bool) bool {
	size := k.log.size()
	if size <= k.size+k.growth {
		return false
	}
	// The next snapshot takes about as many bytes as the last one, and so do the changes
	// meanwhile.
	most := max(maxRatio*k.pure, smallSize) - k.size
	return rested && size > k.size+k.size/2 || size > most
}

// resume goes on behind the content of the directory, or makes its first segment.
func (k *keeper) resume(content *loaded) error {
	l := k.log
	var s *segment
	var err error
	base := k.memory.Clock()
	if n := len(content.used); n > 0 {
		for _, s := range content.used[:n-1] {
			if s.durable < s.end { // a sync of it has failed
				f, err := l.harden(s)
				if err != nil {
					return err
				}
				f.Close()
			}
		}
		last := content.used[n-1]
		k.oldest, k.current = content.used[0].header.number, last.header.number
		s, err = l.reopen(last)
		l.older.Store(content.bytes - last.end)
		l.offset.Store(last.end)
		base = content.decoder.previous
	} else {
		k.newest++
		k.oldest, k.current = k.newest, k.newest
		s, err = l.create(header{number: k.newest, base: base})
		l.offset.Store(headerSize)
	}
	if err != nil {
		return err
	}
	l.file, l.number = s.file, s.header.number
	l.synced.Store(l.offset.Load())
	l.encoder.begin(base)
	l.accepts = true
	return nil
}

// snapshot begins a segment, writes all that counts into it between the changes of callers,
// and deletes the segments before. repair is set after a failure: the log is back in
// service once the snapshot is durable.
func (k *keeper) snapshot(repair bool) {
	if !repair && k.log.mode != syncAlways {
		// Callers wait while the writer syncs the end of the segment before.
		k.log.flushed()
		if err := k.log.sync(); err != nil {
			k.log.fail(err)
			return
		}
	}
	h := header{number: k.newest + 1, previous: k.current, base: k.memory.Clock(), untrusted: repair}
	k.newest++
	if k.log.begin(h) != nil {
		return // there may be room later
	}
	if !repair {
		k.current = h.number // changes of callers go into it from now on
	}
	count, pure, whole := k.dump(h.base)
	whole = whole && k.log.end(count) && k.log.flushed() == nil
	if whole {
		if err := k.log.sync(); err != nil {
			k.log.fail(err)
			whole = false
		}
	}
	if !whole {
		if repair {
			k.log.abandon(h.number)
		}
		return
	}
	k.current, k.size, k.pure, k.count = h.number, k.log.offset.Load(), pure, count
	k.log.stats.snapshots.Add(1)
	if repair {
		k.log.restore()
	}
	k.deleteBefore(h.number)
}

// repair tries to bring the log back into service. If that fails it waits for the next tick:
// the disk may have room for a part of the snapshot only.
func (k *keeper) repair() {
	k.snapshot(true)
	select {
	case <-k.log.broken: // also by the attempt itself
	default:
	}
}

// deleteBefore deletes the segments before a number, the oldest first: those that remain
// after a crash follow each other.
func (k *keeper) deleteBefore(number uint64) {
	for ; k.oldest < number; k.oldest++ {
		err := k.log.files.remove(segmentPath(k.log.dir, k.oldest))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // the next snapshot deletes it
		}
	}
	k.log.older.Store(0)
}

// dump adds all that counts at now to the log. It reports false if the log accepts no more,
// or the keeper must stop. size is the bytes that it added.
func (k *keeper) dump(now int64) (count int, size int64, whole bool) {
	place := memory.DumpPlace{}
	accepted, bytes := true, 0 // bytes since the writer had all
	add := func(c *memory.Change) {
		count++
		accepted = k.log.add(func(e *encoder, b []byte) []byte {
			before := len(b)
			b = e.change(b, c)
			bytes += len(b) - before
			return b
		}) && accepted
	}
	histories := func() bool { return k.memory.Dump(&place, snapshotStep, now, add) }
	operations := func() bool { return k.memory.DumpOperations(&place, snapshotStep, add) }
	for _, step := range []func() bool{histories, operations} {
		for more := true; more; {
			more = step()
			select {
			case <-k.stop:
				return 0, 0, false
			default:
			}
			if !accepted {
				return 0, 0, false
			}
			if bytes >= snapshotBatch {
				size += int64(bytes)
				if k.log.flushed() != nil {
					return 0, 0, false
				}
				bytes = 0
			}
		}
	}
	return count, size + int64(bytes), true
}
