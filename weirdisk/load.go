package weirdisk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// FormatError is the error of a file that cannot be read. Open changes nothing then.
type FormatError struct {
	File    string
	Offset  int64 // in bytes, of the first part that cannot be read
	Problem error
}

// Error names the file and the offset, and gives the next step.
func (e *FormatError) Error() string {
	next := "restore the directory from a backup, or move it away to begin without histories"
	switch {
	case errors.Is(e.Problem, errNewer):
		next = "use the newer program, or another directory"
	case errors.Is(e.Problem, errForeign):
		next = "use an empty directory"
	case errors.Is(e.Problem, engine.ErrFull):
		next = "raise the cap"
	}
	return fmt.Sprintf("weirdisk: %s, offset %d: %v; %s", e.File, e.Offset, e.Problem, next)
}

// Unwrap returns the problem.
func (e *FormatError) Unwrap() error { return e.Problem }

var (
	errDamaged = errors.New("is damaged: data that was on stable storage has changed")
	errMissing = errors.New("continues a segment that is missing")
	errRenamed = errors.New("holds a segment of another number")
	errTorn    = errors.New("ends in the middle of a batch, and another segment follows")
)

// Cut is the end of a log that was written only in part, as the end of the process or a
// power failure leave it.
type Cut struct {
	File   string
	Offset int64 // of the first byte that was cut
	Bytes  int64 // cut from there on; 0 = nothing was cut
}

// loaded is the content of a directory.
type loaded struct {
	decoder decoder
	segments
	cut   Cut
	bytes int64 // of the segments in use
	size  int64 // of the last snapshot, 0 if none is whole
	count int   // histories and operations in it
}

// segments are those of a directory by their use.
type segments struct {
	used   []*stored // oldest first, each continuing the one before
	unused []string  // paths of files that hold nothing that counts
	newest uint64    // highest number, used or not
	tail   bool      // there is a tail
}

// stored is a segment as read.
type stored struct {
	path    string
	header  header
	data    []byte
	end     int64 // behind its last whole batch
	durable int64 // on stable storage up to here at least
}

// load makes the content of the directory again in a new memory engine. It changes no file (D4).
func load(f files, dir string, newMemory func() *memory.Memory) (*loaded, error) {
	found, err := find(f, dir)
	if err != nil {
		return nil, err
	}
	found.skipOld()
	l, err := found.load(newMemory(), processors())
	if err != nil {
		l, err = found.loadAgain(newMemory, err)
	}
	if err != nil {
		return nil, err
	}
	for i, s := range l.used {
		if !l.mayBeTorn(i) { // it was synced before the next one began
			s.data, s.durable = nil, s.end
		}
	}
	return l, nil
}

// processors is the number of lanes of a start.
func processors() int { return min(runtime.GOMAXPROCS(0), maxLanes) }

// load replays the segments into an empty memory engine with so many lanes.
func (f *segments) load(m *memory.Memory, n int) (*loaded, error) {
	l := &loaded{decoder: decoder{memory: m, lanes: newLanes(m, n)}, segments: *f}
	err := l.replayAll()
	if failed := l.decoder.lanes.close(); err == nil {
		err = failed
	}
	return l, err
}

// loadAgain loads after an error. At a cap the log can hold histories that no longer count, which
// the engine forgot meanwhile: all are loaded without caps, and those that count have to fit.
// Other errors, and the final one of a cap, name the first place in the log.
func (f *segments) loadAgain(newMemory func() *memory.Memory, err error) (*loaded, error) {
	if errors.Is(err, errLanes) || errors.Is(err, engine.ErrFull) {
		l, err := f.load(memory.New(memory.Options{}), processors())
		if err == nil {
			err = l.fit(newMemory())
		}
		if err == nil {
			return l, nil
		}
	}
	return f.load(newMemory(), 1)
}

// fit moves all that counts to an empty memory engine.
func (l *loaded) fit(to *memory.Memory) error {
	from := l.decoder.memory
	from.NotBefore(l.decoder.newest)
	l.decoder.memory = to
	return visit(from, to.Apply, &Report{})
}

func (l *loaded) replayAll() error {
	for i, s := range l.used {
		if err := l.replay(s, l.mayBeTorn(i)); err != nil {
			return err
		}
	}
	if len(l.used) > 0 && l.used[0].header.previous != 0 && l.decoder.snapshots == 0 {
		return &FormatError{l.used[0].path, 0, errMissing}
	}
	return nil
}

// mayBeTorn reports whether used segment i may have a torn end: nothing was written behind
// it, or a write or a sync had failed before.
func (f *segments) mayBeTorn(i int) bool {
	for _, s := range f.used[i+1:] {
		if s.header.untrusted || s.written() {
			return s.header.untrusted
		}
	}
	return true
}

// skipOld moves the segments before the newest whole snapshot to the unused ones. It has all
// that counts. They may have more: of a segment with a torn end a reset can be lost.
func (f *segments) skipOld() {
	for i := len(f.used) - 1; i > 0; i-- {
		scan := loaded{} // without a memory
		if scan.replay(f.used[i], true) == nil && scan.decoder.snapshots > 0 {
			for _, s := range f.used[:i] {
				f.unused = append(f.unused, s.path)
			}
			f.used = f.used[i:]
			return
		}
	}
}

// replay redoes the entries of a segment. Its end may be torn, or not.
func (l *loaded) replay(s *stored, torn bool) error {
	d := &l.decoder
	d.begin(&s.header)
	offset, snapshots := int64(headerSize), d.snapshots
	for {
		entries, synced, ok := batchAt(s.data[offset:], s.header.number, offset)
		if !ok {
			break
		}
		if err := d.batch(entries); err != nil {
			return &FormatError{s.path, offset, err}
		}
		s.durable = max(s.durable, synced)
		offset += batchSize + int64(len(entries))
		if d.snapshots > snapshots {
			snapshots, l.size, l.count = d.snapshots, offset, d.count
		}
	}
	s.end = offset
	l.bytes += offset
	// Zeros behind the end were allocated and not written.
	if rest := int64(len(bytes.TrimRight(s.data[offset:], "\x00"))); rest > 0 {
		switch {
		case durableBehind(s, offset):
			return &FormatError{s.path, offset, errDamaged}
		case !torn:
			return &FormatError{s.path, offset, errTorn}
		}
		l.cut = Cut{s.path, offset, rest}
	}
	return nil
}

// durableBehind reports whether a batch behind the offset states that the segment was on
// stable storage beyond the offset. Then the batch at the offset was damaged later.
// Otherwise it was never written whole.
func durableBehind(s *stored, offset int64) bool {
	for at := offset + 1; at < int64(len(s.data)); {
		entries, synced, ok := batchAt(s.data[at:], s.header.number, at)
		switch {
		case !ok:
			at++
		case synced > offset:
			return true
		default:
			at += batchSize + int64(len(entries))
		}
	}
	return false
}

// find reads the segments of the directory and puts them in order.
func find(f files, dir string) (*segments, error) {
	numbers, err := list(dir)
	if err != nil {
		return nil, err
	}
	found := &segments{}
	tail, err := f.read(filepath.Join(dir, tailName))
	if found.tail = err == nil; !found.tail && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := map[uint64]*stored{}
	head := uint64(0) // the newest with batches
	for _, number := range numbers {
		found.newest = max(found.newest, number)
		s := &stored{path: segmentPath(dir, number)}
		if s.data, err = f.read(s.path); err != nil {
			return nil, err
		}
		s.header, err = readHeader(s.data)
		switch {
		case err == errNewer, err != nil && (len(s.data) > headerSize || !begun(s.data)):
			return nil, &FormatError{s.path, 0, err}
		case err != nil: // it was being created: nothing was written into it
			found.unused = append(found.unused, s.path)
			continue
		case s.header.number != number:
			return nil, &FormatError{s.path, 0, errRenamed}
		}
		s.data = laidOver(s.data, number, tail)
		all[number] = s
		if s.written() || head == 0 {
			head = number
		}
	}
	for s := all[head]; s != nil; s = all[s.header.previous] {
		delete(all, s.header.number)
		found.used = append(found.used, s)
	}
	slices.Reverse(found.used)
	for _, s := range all {
		found.unused = append(found.unused, s.path)
	}
	return found, nil
}

// written reports whether the segment has more than a header and zeros, which were allocated
// and not written.
func (s *stored) written() bool {
	return len(bytes.TrimRight(s.data[headerSize:], "\x00")) > 0
}

// begun reports whether b can be a header that was written in part: of any of its bytes a
// power failure may leave zeros.
func begun(b []byte) bool {
	for i, c := range b[:min(len(b), len(magic))] {
		if c != 0 && c != magic[i] {
			return false
		}
	}
	return true
}

// lockName is the file that names the process with the directory.
const lockName = "LOCK"

// list returns the numbers of the segments in the directory. Files of others in a directory
// without our lock file are an error: the directory is not ours.
func list(dir string) (numbers []uint64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, ours := strings.CutSuffix(e.Name(), suffix)
		if !ours || e.IsDir() {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n == 0 || filepath.Base(segmentPath(dir, n)) != e.Name() {
			return nil, &FormatError{filepath.Join(dir, e.Name()), 0, errForeign}
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// checkOurs returns an error for a directory that is not empty and has no file of ours. A new
// file system may have a directory such as lost+found or .snapshot.
func checkOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var foreign fs.DirEntry
	for _, e := range entries {
		switch {
		case e.Name() == lockName || e.Name() == identityName || strings.HasSuffix(e.Name(), suffix):
			return nil
		case !e.IsDir() || e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), "."):
			foreign = e
		}
	}
	if foreign == nil {
		return nil
	}
	return &FormatError{filepath.Join(dir, foreign.Name()), 0, errForeign}
}
