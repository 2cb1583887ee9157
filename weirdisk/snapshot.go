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
	// A snapshot follows once the changes since the last one take as many bytes as the last one
	// and minGrowth together. So the directory has about three times the bytes of a snapshot at
	// the end of the next one.
	minGrowth = 4 << 20

	// keeperTick is the time between two looks at the log's size, and between two attempts
	// to bring it back into service.
	keeperTick = 200 * time.Millisecond

	// idleTick is the time between two checks of a log that does not grow. If less than half of
	// its histories still count, a snapshot follows.
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
	now    chan struct{} // requests a snapshot, in tests

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
		_, err := k.beginSegment(false)
		return err
	}
	last := c.segments[len(c.segments)-1]
	f, err := l.harden(last.path, last.data[:last.at.End], last.synced)
	if err != nil {
		return err
	}
	l.encoder.begin(c.decoder.previous)
	l.startSegment(f, &last.header)
	l.older = c.bytes - last.at.End
	l.end = last.at
	l.synced = last.at
	k.deleteUnnamed()
	*k.manifest.last() = last.at
	// After an error the old manifest is right too, unless it states a mode that promises more.
	if err := k.writeManifest(k.manifest); err != nil && c.manifest.Always && !k.manifest.Always {
		f.Close()
		return fmt.Errorf("%s states sync=always, and that cannot be changed: %w",
			manifestName, err)
	}
	return nil
}

// harden opens a file behind its content, and makes both and its name durable. The content before
// synced is durable. The process that wrote the rest may have ended before a sync, or after a sync
// that failed. After such a failure the system may treat bytes as durable that it has in memory
// only, so these are written again.
func (l *log) harden(path string, content []byte, synced int64) (file, error) {
	f, err := l.files.open(path, false, synced)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(int64(len(content)))
	if rest := content[synced:]; err == nil && len(rest) > 0 {
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

// finish makes the manifest name every byte of the log, which is synced and will not go on.
func (k *keeper) finish() error {
	*k.manifest.last() = k.log.end
	k.writeManifest(k.manifest) // after an error the old manifest is right too
	return k.log.segment.file.Truncate(k.log.end.End)
}

// writeManifest writes a manifest. Even after an error it may be the durable one from now on. It
// fails if another directory has taken the place of this one.
func (k *keeper) writeManifest(m manifest) error {
	if err := k.moved(); err != nil {
		return err
	}
	return m.write(k.log.files, k.log.dir)
}

// moved returns an error if the directory is not in its place.
func (k *keeper) moved() error {
	locked, _ := k.lock[0].Stat()
	if now, err := os.Stat(k.log.dir); err != nil || !os.SameFile(locked, now) {
		return fmt.Errorf("%s was moved, deleted or replaced while the engine used it: "+
			"its log grows without snapshots; put it back", k.log.dir)
	}
	return nil
}

// beginSegment makes the log go over to a new segment, and returns the instant of the snapshot in
// it. A crash at any step leaves a directory that Open reads:
//
//  1. The manifest gets the segment's number as Next, so that Open ignores a part of the file.
//  2. The file is written with its header, durably and with its name.
//  3. Behind the last batch of the old segment, the manifest names the new one.
//  4. Only then the new segment gets a frame.
//
// A segment that repairs is not named in step 3, because it counts once it has a whole snapshot.
func (k *keeper) beginSegment(repair bool) (now int64, err error) {
	l := k.log
	h := header{
		number:   1,
		base:     k.memory.Clock(),
		identity: k.manifest.Identity,
		repair:   repair,
	}
	if len(k.manifest.Segments) > 0 {
		h.number = k.manifest.last().Number + 1
	}
	k.manifest.Next = h.number
	if err := k.writeManifest(k.manifest); err != nil {
		return 0, err
	}
	k.deleteUnnamed()
	path := segmentPath(l.dir, h.number)
	f, err := newFile(l.files, path, h.bytes())
	if err != nil {
		return 0, err
	}
	if err = l.files.syncDir(l.dir); err == nil {
		err = l.rollOver(&rollover{&h, func() error {
			if !repair {
				if err := k.nameSegment(&h); err != nil {
					return err
				}
			}
			l.startSegment(f, &h)
			return nil
		}})
	}
	if err != nil {
		f.Close()
		if k.manifest.named(h.number) == nil {
			l.files.remove(path)
		}
	}
	return h.base, err
}

// nameSegment makes the manifest name a segment that begins, and all bytes of the one before.
func (k *keeper) nameSegment(h *header) error {
	end, err := k.log.sync()
	if err != nil {
		return err
	}
	if h.number > 1 {
		*k.manifest.last() = end
	}
	k.manifest.Segments = append(k.manifest.Segments, h.start())
	k.manifest.Next = 0
	return k.writeManifest(k.manifest)
}

// snapshot begins a segment, writes all that counts into it between the changes of callers,
// and deletes the earlier segments. If the log is out of service, snapshot brings it back. Then
// no call is answered before the snapshot is whole, so the manifest names the segment only
// afterwards. If the snapshot fails, as on a disk with room for a part of it, the next tick
// tries again.
func (k *keeper) snapshot() {
	l := k.log
	repair := l.outOfService()
	if !repair && l.mode != syncAlways { // otherwise callers wait while the writer syncs
		if _, err := l.syncOrFail(); err != nil {
			return
		}
	}
	now, err := k.beginSegment(repair)
	if err != nil {
		if !errors.Is(err, errClosed) {
			l.recordSnapshot(repair, err)
		}
		return // there may be room later
	}
	m, whole := k.writeSnapshot(now)
	if !whole {
		if repair { // the log accepts nothing, and its next segment may need the room of this one
			l.awaitWritten()
			l.segment.file.Truncate(0)
		}
		return
	}
	if err = k.writeManifest(m); err == nil || repair {
		// Both the new segment and the old ones have all that counts, because no call has been
		// answered since the failure. So the new manifest is right even if its write has failed.
		k.manifest = m
	}
	l.recordSnapshot(repair, err)
	if err == nil {
		k.deleteUnnamed()
	}
}

// writeSnapshot writes all that counts at now to the segment, durably. It returns the manifest that
// follows, which names this segment alone. whole is false if the log accepts no more, as after
// endService.
func (k *keeper) writeSnapshot(now int64) (m manifest, whole bool) {
	m = k.manifest
	m.Next = 0
	m.Snapshot = 0
	m.Histories = 0
	place := memory.DumpPlace{}
	accepted := true
	unwritten := 0 // bytes that the writer may not have written
	add := func(c *memory.Change) {
		n, ok := k.log.add([]memory.Change{*c}, false)
		accepted = accepted && ok
		unwritten += n
		m.Snapshot += int64(n)
		m.Histories++
	}
	for more := true; more; {
		more = k.memory.Dump(&place, snapshotStep, now, add)
		if more && accepted && unwritten < snapshotBatch {
			continue
		}
		unwritten = 0
		if !accepted || k.log.awaitWritten() != nil {
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
