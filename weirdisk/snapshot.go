package weirdisk

import (
	"crypto/rand"
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

	// idleTick is the time until a log that is mostly over is written anew, although
	// it does not grow.
	idleTick = time.Minute

	// A step of a snapshot visits a few histories, each under its own lock, and a bounded
	// number of entries. After snapshotBatch bytes it waits for the writer. So callers wait for
	// no more to be written, and those that wait for a processor wait for no more steps.
	snapshotStep  = 32
	snapshotBatch = 16 << 10
)

// keeper takes snapshots, deletes segments and brings the log back into service. It writes the
// manifest.
type keeper struct {
	log    *log
	memory *memory.Memory
	stop   <-chan struct{} // set by run
	now    chan struct{}   // requests a snapshot
	ready  chan struct{}   // closed when the engine may be used

	manifest manifest // as it is in the directory
	noted    bool     // the last write of the manifest has not failed
	pure     int64    // bytes of the last snapshot, without the changes of callers meanwhile
	count    int      // histories and operations in it

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
		k.snapshot()
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
		select {
		case <-stop:
			return
		case <-k.log.broken:
			k.repair()
			continue
		case <-k.now:
			k.snapshot()
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
			k.snapshot()
			rest = time.Now().Add(snapshotPause * time.Since(began))
		}
	}
}

// due reports whether the log has grown enough for a snapshot. Before the rest after the last
// one is over, it must begin only so that the bytes at its end stay within maxRatio.
func (k *keeper) due(rested bool) bool {
	size := k.log.size()
	if size <= k.manifest.Snapshot+k.growth {
		return false
	}
	// The next snapshot takes about as many bytes as the last one, and so do the changes
	// meanwhile.
	most := max(maxRatio*k.pure, smallSize) - k.manifest.Snapshot
	return rested && size > k.manifest.Snapshot+k.manifest.Snapshot/2 || size > most
}

// resume goes on behind the content of the directory, or makes its first segment.
func (k *keeper) resume(c *contents) error {
	l := k.log
	k.manifest.Always = l.mode == syncAlways
	if len(c.segments) == 0 {
		if k.manifest.Identity == "" {
			k.manifest.Identity = rand.Text()
		}
		k.noted = false // the one before may not be durable
		f, h, err := k.next(false)
		if err != nil {
			return err
		}
		k.manifest.Segments, k.manifest.Next = []stable{{h.number, headerSize, h.sum()}}, 0
		if err := k.note(k.manifest); err != nil {
			f.Close()
			return err
		}
		l.encoder.begin(h.base)
		l.use(f, &h)
		return nil
	}
	last := c.segments[len(c.segments)-1]
	f, err := l.harden(last)
	if err != nil {
		return err
	}
	l.encoder.begin(c.decoder.previous)
	l.use(f, &last.header)
	l.older = c.bytes() - last.at.End
	l.end, l.synced = last.at, last.at
	for _, path := range c.unused {
		l.files.remove(path) // otherwise the next start removes it
	}
	if *k.manifest.last() != last.at || k.manifest.Always != c.manifest.Always {
		*k.manifest.last() = last.at
		k.note(k.manifest) // after an error the one before is right too
	}
	return nil
}

// harden opens a segment behind its last whole frame, durable with its name. The process
// that made it may have ended before, or after a sync that failed. After such a sync the
// system may take for durable what it has in memory only, so that is written again.
func (l *log) harden(s *stored) (file, error) {
	if err := l.files.truncate(s.path, s.at.End); err != nil {
		return nil, err
	}
	f, err := l.files.open(s.path, s.synced)
	if err != nil {
		return nil, err
	}
	if rest := s.data[s.synced:s.at.End]; len(rest) > 0 {
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

// finish leaves a directory of which every byte is named: the log is synced, and will not go on.
func (k *keeper) finish() error {
	l := k.log
	*k.manifest.last() = l.end
	k.note(k.manifest) // after an error the one before is right too
	return l.files.truncate(segmentPath(l.dir, l.end.Number), l.end.End)
}

// note writes a manifest, which may be the durable one from now on.
func (k *keeper) note(m manifest) error {
	err := m.write(k.log.files, k.log.dir)
	k.noted = err == nil
	return err
}

// next makes the next segment, which the manifest allows to exist before that.
func (k *keeper) next(repair bool) (file, header, error) {
	l := k.log
	h := header{number: 1, base: k.memory.Clock(), identity: k.manifest.Identity, repair: repair}
	if len(k.manifest.Segments) > 0 {
		h.number = k.manifest.last().Number + 1
	}
	if !k.noted || k.manifest.Next != h.number {
		k.manifest.Next = h.number
		if err := k.note(k.manifest); err != nil {
			return nil, h, err
		}
		k.deleteOld()
	}
	path := segmentPath(l.dir, h.number)
	l.files.remove(path) // left by an attempt that failed
	f, err := l.files.create(path)
	if err != nil {
		return nil, h, err
	}
	if _, err = f.Write(h.bytes()); err == nil {
		err = f.sync()
	}
	if err == nil {
		err = l.files.syncDir(l.dir)
	}
	if err != nil {
		f.Close()
		l.files.remove(path)
	}
	return f, h, err
}

// snapshot begins a segment, writes all that counts into it between the changes of callers,
// and deletes the segments before.
func (k *keeper) snapshot() {
	l := k.log
	if l.mode != syncAlways { // otherwise callers wait while the writer syncs
		if err := l.sync(); err != nil {
			l.fail(err)
			return
		}
	}
	f, h, err := k.next(false)
	if err != nil {
		return // there may be room later
	}
	err = l.turn(&turn{f, h, func(before stable) error {
		*k.manifest.last() = before
		k.manifest.Segments = append(k.manifest.Segments, stable{h.number, headerSize, h.sum()})
		k.manifest.Next = 0
		return k.note(k.manifest)
	}})
	if err != nil {
		f.Close()
		if k.manifest.last().Number != h.number {
			l.files.remove(segmentPath(l.dir, h.number))
		}
		return
	}
	if k.fill(h) {
		m := k.replaced()
		if k.note(m) == nil {
			k.manifest = m
			l.stats.snapshots.Add(1)
			k.deleteOld()
		}
	}
}

// repair tries to bring the log back into service, with a whole snapshot in a new segment. If that
// fails it waits for the next tick: the disk may have room for a part of it only.
func (k *keeper) repair() {
	defer func() {
		select {
		case <-k.log.broken: // also by the attempt itself
		default:
		}
	}()
	l := k.log
	f, h, err := k.next(true)
	if err != nil {
		l.fail(err)
		return
	}
	if err := l.turn(&turn{file: f, header: h}); err != nil {
		f.Close()
		l.files.remove(segmentPath(l.dir, h.number))
		return
	}
	if !k.fill(h) {
		l.abandon()
		l.files.remove(segmentPath(l.dir, h.number))
		return
	}
	// Whether the note fails or not, the segment has all that counts from now on, as the ones
	// before do: no call has been answered since the failure.
	k.manifest = k.replaced()
	if err := k.note(k.manifest); err != nil {
		l.fail(err)
		return
	}
	l.stats.snapshots.Add(1)
	l.restore()
	k.deleteOld()
}

// fill writes a whole snapshot to the segment, durably.
func (k *keeper) fill(h header) bool {
	count, size, whole := k.dump(h.base)
	if !whole || k.log.flushed() != nil {
		return false
	}
	if err := k.log.sync(); err != nil {
		k.log.fail(err)
		return false
	}
	k.pure, k.count = size, count
	return true
}

// replaced returns the manifest behind a whole snapshot: the last segment alone.
func (k *keeper) replaced() manifest {
	m := k.manifest
	end := k.log.syncedEnd()
	m.Segments, m.Next = []stable{end}, 0
	m.Snapshot, m.Histories = end.End, k.count
	return m
}

// deleteOld deletes segments that the manifest names no more.
func (k *keeper) deleteOld() {
	numbers, err := list(k.log.dir)
	if err != nil {
		return // the next snapshot deletes them
	}
	for _, number := range numbers {
		if number < k.manifest.first() {
			k.log.files.remove(segmentPath(k.log.dir, number))
		}
	}
	if len(k.manifest.Segments) == 1 {
		k.log.mu.Lock()
		k.log.older = 0
		k.log.mu.Unlock()
	}
}

// dump adds all that counts at now to the log. It reports false if the log accepts no more,
// or the keeper must stop. size is the bytes that it added.
func (k *keeper) dump(now int64) (count int, size int64, whole bool) {
	place := memory.DumpPlace{}
	accepted, bytes := true, 0 // bytes since the writer had all
	add := func(c *memory.Change) {
		count++
		n, ok := k.log.add(c)
		bytes += n
		accepted = accepted && ok
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
