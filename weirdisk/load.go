package weirdisk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// FormatError is the error of a file that cannot be used. Open changes nothing then.
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
	case errors.Is(e.Problem, errOlder):
		next = "use an empty directory; weir store check reports whether a directory can be used"
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
	errShort   = errors.New("is cut short: data that was on stable storage is missing")
	errRenamed = errors.New("holds a segment of another number")
)

// Cut is the end of a log that was written only in part, as the end of the process or a
// power failure leave it.
type Cut struct {
	File   string
	Offset int64 // where the first byte was cut
	Bytes  int64 // cut from there on; 0 = nothing was cut
	Always bool  // the process that wrote it has used SyncAlways
}

// String describes the cut, and the changes that may be missing.
func (c Cut) String() string {
	text := fmt.Sprintf("%s has a torn end, as the end of a process or of the power leaves it: the changes in %d bytes from offset %d on are lost", c.File, c.Bytes, c.Offset)
	if c.Always {
		return text + "; with sync=always they had no answers yet, unless the file was changed after its last sync: then acknowledged changes are lost"
	}
	return text + "; those since the last sync were acknowledged"
}

// contents is what a directory holds.
type contents struct {
	manifest manifest // without an identity: the directory is new
	segments []*stored
	unused   []string // paths of files that hold nothing that counts
	decoder  decoder
	cut      Cut
}

// stored is a segment as read.
type stored struct {
	path   string
	header header
	sum    uint32 // the header's checksum
	data   []byte
	at     stable // its end, behind the last whole frame
	synced int64  // on stable storage up to here at least
}

// load makes the content of the directory again in a new memory engine. It changes no file (D4).
func load(o *options, dir string, newMemory func() *memory.Memory) (*contents, error) {
	c, err := find(o.files, dir)
	if err != nil {
		return nil, err
	}
	for i, s := range c.segments {
		if err := c.verify(s, c.manifest.Segments[i], i == len(c.segments)-1); err != nil {
			return nil, err
		}
	}
	err = c.replay(newMemory(), o.progress)
	if errors.Is(err, engine.ErrFull) {
		err = c.replayAgain(newMemory(), err)
	}
	return c, err
}

// replayAgain loads after an error at a cap. The log can hold histories that no longer count, which
// the engine forgot meanwhile: all are loaded without caps, and those that count have to fit.
func (c *contents) replayAgain(to *memory.Memory, full error) error {
	from := memory.New(memory.Options{})
	if err := c.replay(from, nil); err != nil {
		return err
	}
	from.NotBefore(c.decoder.newest)
	c.decoder.memory = to
	if visit(from, to.Apply, &Report{}) != nil {
		return full // it names the place in the log
	}
	return nil
}

// find reads the manifest and the segments that it names.
func find(f files, dir string) (*contents, error) {
	numbers, err := list(dir)
	if err != nil {
		return nil, err
	}
	c := &contents{}
	if c.manifest, err = readManifest(f, dir); errors.Is(err, fs.ErrNotExist) {
		return c, withoutManifest(f, dir, numbers)
	} else if err != nil {
		return nil, err
	}
	for _, number := range numbers {
		if c.manifest.named(number) != nil {
			continue
		}
		path := segmentPath(dir, number)
		if err := c.checkUnnamed(f, path, number); err != nil {
			return nil, &FormatError{path, 0, err}
		}
		c.unused = append(c.unused, path)
	}
	for _, named := range c.manifest.Segments {
		s := &stored{path: segmentPath(dir, named.Number)}
		s.data, err = f.read(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &FormatError{s.path, 0, errMissing}
		} else if err != nil {
			return nil, err
		}
		s.header, err = readHeader(s.data)
		switch {
		case len(s.data) < headerSize:
			err = errShort
		case err != nil:
		case s.header.identity != c.manifest.Identity:
			err = errOtherOrigin
		case s.header.number != named.Number:
			err = errRenamed
		}
		if err != nil {
			return nil, &FormatError{s.path, 0, err}
		}
		s.sum = s.header.sum()
		c.segments = append(c.segments, s)
	}
	return c, nil
}

// withoutManifest returns nil for a new directory, which has no segments.
func withoutManifest(f files, dir string, numbers []uint64) error {
	if len(numbers) == 0 {
		return nil
	}
	path := segmentPath(dir, numbers[0])
	b, err := f.read(path)
	if err != nil {
		return err
	}
	if _, err := readHeader(b); err == errOlder || err == errNewer || err == errForeign {
		return &FormatError{path, 0, err}
	}
	return &FormatError{filepath.Join(dir, manifestName), 0, errNoManifest}
}

// checkUnnamed returns an error for a segment that the manifest does not name and that may
// hold changes.
func (c *contents) checkUnnamed(f files, path string, number uint64) error {
	b, err := f.read(path)
	if err != nil {
		return err
	}
	h, err := readHeader(b)
	switch {
	case err == nil && h.identity != c.manifest.Identity:
		return errOtherOrigin
	case err == errForeign && (len(bytes.TrimRight(b, "\x00")) > headerSize || !begun(b)):
		return errForeign
	case number == c.manifest.Next && (len(bytes.TrimRight(b, "\x00")) <= headerSize || err == nil && h.repair):
		return nil // it was being written
	case number < c.manifest.first():
		return nil // a snapshot has replaced it
	}
	return errUnnamed
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

// verify checks all frames of a segment in one pass, and finds its end. All up to the stable
// offset must be there. Only the last segment may go on behind it, and have a torn end.
func (c *contents) verify(s *stored, want stable, last bool) error {
	s.at, s.synced = stable{s.header.number, headerSize, s.sum}, want.End
	found := s.at == want
	for int64(len(s.data)) > s.at.End {
		f, ok := spot{s.sum, s.at.End}.frameAt(s.data[s.at.End:])
		if !ok {
			break
		}
		s.synced = max(s.synced, f.synced)
		s.at.End += frameSize + int64(len(f.entries))
		s.at.Sum = f.sum
		found = found || s.at == want
	}
	rest := int64(len(bytes.TrimRight(s.data[s.at.End:], "\x00"))) // zeros were allocated and not written
	switch {
	case rest == 0 && s.at.End < want.End && int64(len(s.data)) < want.End:
		return &FormatError{s.path, int64(len(s.data)), errShort}
	case !found, !last && (s.at.End > want.End || rest > 0), rest > 0 && frameBehind(s.data, s.sum, s.at.End):
		return &FormatError{s.path, s.at.End, errDamaged}
	case rest > 0:
		c.cut = Cut{s.path, s.at.End, rest, c.manifest.Always}
	}
	return nil
}

// progressStep is the bytes after which the progress of a start is reported.
const progressStep = 64 << 20

// replay makes the changes of all segments again in an empty memory engine.
func (c *contents) replay(m *memory.Memory, progress func(done, total int64)) error {
	c.decoder = decoder{memory: m}
	done, reported, total := int64(0), int64(0), c.bytes()
	for _, s := range c.segments {
		c.decoder.begin(&s.header)
		for at := int64(headerSize); at < s.at.End; {
			f, _ := spot{s.sum, at}.frameAt(s.data[at:])
			if err := c.decoder.batch(f.entries); err != nil {
				return &FormatError{s.path, at, err}
			}
			n := frameSize + int64(len(f.entries))
			at, done = at+n, done+n
			if progress != nil && done-reported >= progressStep {
				reported = done
				progress(done, total)
			}
		}
	}
	return nil
}

// bytes is those of all segments.
func (c *contents) bytes() (n int64) {
	for _, s := range c.segments {
		n += s.at.End
	}
	return n
}

// lockName is the file that names the process with the directory.
const lockName = "LOCK"

// list returns the numbers of the segments in the directory.
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
		case e.Name() == lockName || strings.HasPrefix(e.Name(), manifestName) || strings.HasSuffix(e.Name(), suffix):
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
