package weirdisk

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weirlimit/weir/internal/memory"
)

const (
	// A snapshot follows once the changes since the last one take as many bytes as that and
	// minGrowth. So the directory has about three times the bytes of a snapshot at the end of
	// the next one.
	minGrowth = 4 << 20

	// keeperTick is the time between two looks at the log's size, and between two attempts
	// to bring it back into service.
	keeperTick = 200 * time.Millisecond

	// idleTick is the time until a log that is mostly over is written again, although
	// it does not grow.
	idleTick = time.Minute

	// A step of a snapshot visits a few histories, each under its own lock. After snapshotBatch
	// bytes the snapshot waits for the writer. So a caller waits for no more bytes than these to
	// be written, and a goroutine that waits for a processor waits for no more steps.
	snapshotStep  = 32
	snapshotBatch = 16 << 10
)

// keeper takes snapshots, deletes segments and brings the log back into service. It writes the
// manifest.
type keeper struct {
	log    *log
	memory *memory.Memory
	now    chan struct{} // requests a snapshot

	manifest manifest // as it is in the directory
	lock     dirLock

	growth int64         // minGrowth; tests take snapshots sooner
	tick   time.Duration // keeperTick
}

// run keeps the log until stop is closed.
func (k *keeper) run(stop <-chan struct{}) {
	t := time.NewTicker(k.tick)
	defer t.Stop()
	idle := time.Now().Add(idleTick)
	for {
		due := true
		select {
		case <-stop:
			return
		case <-k.now:
		case now := <-t.C:
			due = k.log.outOfService() || k.due()
			if !due && now.After(idle) {
				idle = now.Add(idleTick)
				k.memory.Sweep()
				due = k.log.size() > k.growth/4 && k.memory.Len() < k.manifest.Histories/2
			}
		}
		if due {
			k.snapshot()
		}
	}
}

// due reports whether the log has grown enough for a snapshot.
func (k *keeper) due() bool { return k.log.size() > 2*k.manifest.Snapshot+k.growth }

// resume goes on behind the content of the directory.
func (k *keeper) resume(c *contents) error {
	l := k.log
	k.manifest.Always = l.mode == syncAlways
	if len(c.segments) == 0 {
		k.manifest.Identity = cmp.Or(k.manifest.Identity, rand.Text())
		_, err := k.roll(false)
		return err
	}
	last := c.segments[len(c.segments)-1]
	f, err := l.harden(last)
	if err != nil {
		return err
	}
	l.encoder.begin(c.decoder.previous)
	l.use(f, &last.header)
	l.older = c.bytes - last.at.End
	l.end, l.synced = last.at, last.at
	k.deleteUnnamed()
	*k.manifest.last() = last.at
	// After an error the old manifest is right too, unless it states a mode that promises more.
	if err := k.note(k.manifest); err != nil && c.manifest.Always && !k.manifest.Always {
		f.Close()
		return fmt.Errorf("%s states sync=always, and that cannot be changed: %w", manifestName, err)
	}
	return nil
}

// harden opens a segment behind its last whole frame, and makes the segment and its name
// durable. The process that wrote it may have ended before a sync, or after a sync that failed.
// After such a failure the system may treat bytes as durable that it has in memory only, so
// these are written again.
func (l *log) harden(s *stored) (file, error) {
	f, err := l.files.open(s.path, false, s.synced)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(s.at.End)
	if rest := s.data[s.synced:s.at.End]; err == nil && len(rest) > 0 {
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
	}
	return f, err
}

// finish makes the manifest name every byte of the log, which is synced and will not go on.
func (k *keeper) finish() error {
	*k.manifest.last() = k.log.end
	k.note(k.manifest) // after an error the old manifest is right too
	return k.log.file.Truncate(k.log.end.End)
}

// note writes a manifest. Even after an error it may be the durable one from now on. It fails if
// another directory has taken the place of this one.
func (k *keeper) note(m manifest) error {
	if err := k.moved(); err != nil {
		return err
	}
	return m.write(k.log.files, k.log.dir)
}

// moved returns an error if the directory is not in its place.
func (k *keeper) moved() error {
	locked, _ := k.lock[0].Stat()
	if now, err := os.Stat(k.log.dir); err != nil || !os.SameFile(locked, now) {
		return fmt.Errorf("%s was moved, deleted or replaced while the engine used it: its log grows without snapshots; put it back", k.log.dir)
	}
	return nil
}

// roll makes the log go on in a new segment. The manifest has its number as Next before the file
// exists, and names it before it has a frame. A segment that repairs is not named yet, because it
// counts once it has a whole snapshot. roll returns the instant of the snapshot.
func (k *keeper) roll(repair bool) (now int64, err error) {
	l := k.log
	h := header{number: 1, base: k.memory.Clock(), identity: k.manifest.Identity, repair: repair}
	if len(k.manifest.Segments) > 0 {
		h.number = k.manifest.last().Number + 1
	}
	k.manifest.Next = h.number
	if err := k.note(k.manifest); err != nil {
		return 0, err
	}
	k.deleteUnnamed()
	path := segmentPath(l.dir, h.number)
	f, err := newFile(l.files, path, h.bytes())
	if err != nil {
		return 0, err
	}
	if err = l.files.syncDir(l.dir); err == nil {
		err = l.goOn(&h, func() (err error) {
			if !repair {
				err = k.name(&h)
			}
			if err == nil {
				l.use(f, &h)
			}
			return err
		})
	}
	if err != nil {
		f.Close()
		if k.manifest.named(h.number) == nil {
			l.files.remove(path)
		}
	}
	return h.base, err
}

// name makes the manifest name a segment that begins, and all bytes of the one before.
func (k *keeper) name(h *header) error {
	end, err := k.log.sync()
	if err != nil {
		return err
	}
	if h.number > 1 {
		*k.manifest.last() = end
	}
	k.manifest.Segments, k.manifest.Next = append(k.manifest.Segments, h.start()), 0
	return k.note(k.manifest)
}

// snapshot begins a segment, writes all that counts into it between the changes of callers,
// and deletes the earlier segments. If the log is out of service, snapshot brings it back. Then
// no call is answered before the snapshot is whole, so the manifest names the segment only
// afterwards. If the snapshot fails, as on a disk with room for a part of it, the next tick
// tries again.
func (k *keeper) snapshot() {
	l, repair := k.log, k.log.outOfService()
	if !repair && l.mode != syncAlways { // otherwise callers wait while the writer syncs
		if _, err := l.syncOrFail(); err != nil {
			return
		}
	}
	now, err := k.roll(repair)
	if err != nil {
		if !errors.Is(err, errClosed) {
			l.conclude(repair, err)
		}
		return // there may be room later
	}
	m, whole := k.fill(now)
	if !whole {
		if repair { // the log accepts nothing, and its next segment may need the room of this one
			l.flushed()
			l.file.Truncate(0)
		}
		return
	}
	if err = k.note(m); err == nil || repair {
		// Both the new segment and the old ones have all that counts, because no call has been
		// answered since the failure. So the new manifest is right even if its write has failed.
		k.manifest = m
	}
	if l.conclude(repair, err); err == nil {
		k.deleteUnnamed()
	}
}

// fill writes all that counts at now to the segment, durably. It returns the manifest that
// follows, which names this segment alone. whole is false if the log accepts no more, as after shut.
func (k *keeper) fill(now int64) (m manifest, whole bool) {
	m = k.manifest
	m.Next, m.Snapshot, m.Histories = 0, 0, 0
	place := memory.DumpPlace{}
	accepted, bytes := true, 0 // bytes that the writer may not have written
	add := func(c *memory.Change) {
		n, ok := k.log.add([]memory.Change{*c}, false)
		bytes, accepted = bytes+n, accepted && ok
		m.Snapshot += int64(n)
		m.Histories++
	}
	for more := true; more; {
		more = k.memory.Dump(&place, snapshotStep, now, add)
		if more && accepted && bytes < snapshotBatch {
			continue
		}
		if bytes = 0; !accepted || k.log.flushed() != nil {
			return m, false
		}
	}
	end, err := k.log.syncOrFail()
	m.Segments = []stable{end}
	return m, err == nil
}

// deleteUnnamed deletes the segments that the manifest does not name: older ones, and one that
// an unfinished snapshot has left. The manifest must be durable.
func (k *keeper) deleteUnnamed() {
	numbers, _ := list(k.log.dir) // after an error, the next snapshot deletes them
	for _, number := range numbers {
		if k.manifest.named(number) == nil {
			k.log.files.remove(segmentPath(k.log.dir, number))
		}
	}
}
