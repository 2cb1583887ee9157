package weirdisk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/memory"
)

// FormatError is the error of a file that cannot be used. Open has changed nothing.
type FormatError struct {
	File    string
	Offset  int64 // byte at which the first unreadable part begins
	Problem error
}

// Error names the file and the offset, and gives the next step.
func (e *FormatError) Error() string {
	next := nextStep(e.Problem,
		"; restore the directory from a backup, or move it away to begin without histories")
	return fmt.Sprintf("weirdisk: %s, offset %d: %v%s", e.File, e.Offset, e.Problem, next)
}

// Unwrap returns the problem.
func (e *FormatError) Unwrap() error { return e.Problem }

// These are the problems of files.
var (
	errForeign = errors.New("is not a file of weirdisk")
	errNewer   = errors.New("has a newer format than this program reads")
	errOlder   = errors.New("has the format of an earlier program")
	errHeader  = errors.New("has a damaged header")

	errNoManifest = errors.New("is there, and " + manifestName + " is missing")
	errManifest   = errors.New("is damaged")
	errMissing    = errors.New("is missing, and " + manifestName + " names it")
	errUnnamed    = errors.New("is not named by " +
		manifestName + ", which is older or of another directory")
	errOtherOrigin = errors.New("belongs to another directory")

	errDamaged = errors.New("is damaged: data that was on stable storage has changed")
	errShort   = errors.New("is cut short: data that was on stable storage is missing")
	errRenamed = errors.New("holds a segment of another number")

	errIrregular = errors.New("is not a regular file")
	errLong      = errors.New("is longer than any file of weirdisk")
)

// Cut is an end of the log that was written only in part, as the end of the process or a
// power failure leaves it. If the log has none, it is that of the file of documents, of which the
// last change is lost. If both have one, String describes both.
type Cut struct {
	File   string
	Offset int64 // offset of the first byte that was cut
	Bytes  int64 // number of bytes that were cut; 0 = nothing was cut
	Always bool  // the process that wrote the file used SyncAlways

	// After is the instant of the last change that is kept, by the engine's clock. All later
	// changes are lost. Their number is not known: most of them may have left no byte.
	After time.Time

	// Changes is the number of changes that can be read in the bytes that were cut. They stand
	// behind a part that is missing, so they are lost too.
	Changes int

	documents *Cut // that of the file of documents, behind one of the log
}

// String describes the cut, and the changes that may be missing.
func (c Cut) String() string {
	if c.Bytes == 0 {
		return "nothing was cut"
	}
	if filepath.Base(c.File) == documentsName {
		return fmt.Sprintf("%s has a torn end at offset %d, "+
			"as the end of a process or of the power leaves it: %d bytes of a change of a document "+
			"are lost; it had no answer yet, unless the file was changed after its last sync",
			c.File, c.Offset, c.Bytes)
	}
	left := fmt.Sprintf("of them %d bytes are left", c.Bytes)
	if c.Changes > 0 {
		left += fmt.Sprintf(", with %d changes behind a part that is missing", c.Changes)
	}
	text := fmt.Sprintf("%s has a torn end at offset %d, "+
		"as the end of a process or of the power leaves it: all changes after %s are lost; %s",
		c.File, c.Offset, c.After.Format(time.RFC3339Nano), left)
	if c.Always {
		text += "; with sync=always they had no answers yet, " +
			"unless the file was changed after its last sync: then acknowledged changes are lost"
	} else {
		text += "; those since the last sync were acknowledged"
	}
	if c.documents != nil {
		text += "; " + c.documents.String()
	}
	return text
}

// contents is the files of a directory.
type contents struct {
	manifest manifest // without an identity: the directory is new
	segments []*stored
	bytes    int64 // total of the segments
	decoder  decoder
	cut      Cut

	documents     *documents.Store
	documentsFile storedDocuments
	documentsCut  Cut
}

// load reads the directory into a new memory engine. It changes no file (D4). The log can hold
// histories that no longer count, so the caps apply only after they are removed.
func load(o *config, dir string) (*contents, error) {
	m := memory.New(memory.Options{Journal: o.memory.Journal})
	c := &contents{decoder: decoder{memory: m}, documents: new(documents.Store)}
	if err := c.find(dir); err != nil {
		return nil, err
	}
	if err := c.loadDocuments(dir); err != nil {
		return nil, err
	}
	if err := c.replay(o.progress); err != nil {
		return nil, err
	}
	if c.cut.Bytes == 0 {
		c.cut = c.documentsCut
	} else {
		c.cut.After = c.end()
		if documents := c.documentsCut; documents.Bytes > 0 { // a copy, because c holds the files
			c.cut.documents = &documents
		}
	}
	m.NotBefore(c.decoder.newest)
	m.Sweep()
	return c, m.SetCaps(o.memory.MaxKeys, o.memory.MaxBytes)
}

// end returns the instant of the last change, or of the beginning of the last segment.
func (c *contents) end() time.Time { return time.UnixMicro(c.decoder.newest).UTC() }

// find reads the manifest and the segments that it names, and verifies them.
func (c *contents) find(dir string) error {
	numbers, err := list(dir)
	if err != nil {
		return err
	}
	if c.manifest, err = readManifest(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, number := range numbers {
		s := &stored{path: segmentPath(dir, number)}
		if s.data, err = readFile(s.path, maxSegment+allocateAhead); err != nil {
			return err
		}
		if err := c.manifest.accept(s, number); err != nil {
			return &FormatError{s.path, 0, err}
		}
		if want := c.manifest.named(number); want != nil {
			if err := c.verify(s, *want, want == c.manifest.last()); err != nil {
				return err
			}
			c.segments = append(c.segments, s)
			c.bytes += s.at.End
		}
	}
	for _, named := range c.manifest.Segments {
		if !slices.Contains(numbers, named.Number) {
			return &FormatError{segmentPath(dir, named.Number), 0, errMissing}
		}
	}
	return nil
}

// accept reads the header of a segment. It returns an error in two cases: the segment cannot be the
// one that the manifest names, or the manifest does not name it and it may hold changes.
func (m *manifest) accept(s *stored, number uint64) (err error) {
	s.header, err = readHeader(s.data)
	if m.named(number) != nil {
		return m.acceptNamed(s, number, err)
	}
	hasFrames := len(bytes.TrimRight(s.data, "\x00")) > headerSize
	replaced := len(m.Segments) > 0 && number < m.Segments[0].Number // by a snapshot
	switch {
	case err != nil && m.Identity == "":
		return err
	case err == errForeign && hasFrames:
		return err
	case m.Identity == "":
		return errNoManifest
	case err == nil && s.header.identity != m.Identity:
		return errOtherOrigin
	case replaced:
		return nil
	case number == m.Next && (!hasFrames || err == nil && s.header.repair):
		return nil // begun, and nothing in it counts
	}
	return errUnnamed
}

// acceptNamed is accept for a segment that the manifest names. err is the error of its header.
func (m *manifest) acceptNamed(s *stored, number uint64, err error) error {
	switch {
	case len(s.data) < headerSize:
		return errShort
	case err != nil:
		return err
	case s.header.identity != m.Identity:
		return errOtherOrigin
	case s.header.number != number:
		return errRenamed
	}
	return nil
}

// verify checks all frames of a segment in one pass, and finds its end. All frames up to the
// stable offset must be there. Only the last segment may go on behind it and have a torn end.
func (c *contents) verify(s *stored, want stable, last bool) error {
	s.at, s.synced = s.header.start(), want.End
	s.sum = s.at.Sum
	found := s.at == want
	for f, ok := s.frameAt(s.at.End); ok; f, ok = s.frameAt(s.at.End) {
		s.synced = max(s.synced, f.synced)
		s.at.End, s.at.Sum = s.at.End+f.size(), f.sum
		found = found || s.at == want
	}
	// Zeros were allocated and not written.
	rest := int64(len(bytes.TrimRight(s.data[s.at.End:], "\x00")))
	goesOn := s.at.End > want.End || rest > 0
	switch {
	case rest == 0 && s.at.End < want.End && int64(len(s.data)) < want.End:
		return &FormatError{s.path, int64(len(s.data)), errShort}
	case !found, !last && goesOn:
		return &FormatError{s.path, s.at.End, errDamaged}
	case rest == 0:
		return nil
	}
	wasStable, changes := s.searchBehind(s.at.End)
	if wasStable {
		return &FormatError{s.path, s.at.End, errDamaged}
	}
	c.cut = Cut{
		File:    s.path,
		Offset:  s.at.End,
		Bytes:   rest,
		Always:  c.manifest.Always,
		Changes: changes,
	}
	return nil
}

// progressStep is the bytes after which the progress of a start is reported.
const progressStep = 64 << 20

// replay makes the changes of all segments again.
func (c *contents) replay(progress func(done, total int64)) error {
	done := int64(0)
	for _, s := range c.segments {
		c.decoder.begin(&s.header)
		for at := int64(headerSize); at < s.at.End; {
			f, _ := s.frameAt(at)
			if err := c.decoder.batch(f.entries); err != nil {
				return &FormatError{s.path, at, err}
			}
			before := done
			at += f.size()
			done += f.size()
			if progress != nil && done/progressStep > before/progressStep {
				progress(done, c.bytes)
			}
		}
	}
	return nil
}

// lockName is the file that names the process with the directory.
const lockName = "LOCK"

// list returns the numbers of the segments in the directory. It returns an error if the
// directory has files, and none of them is ours. A LOCK shows neither, because many databases
// have one. Directories such as lost+found or .snapshot, which a new file system may have, are
// ignored.
func list(dir string) (numbers []uint64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	ours, foreign := false, ""
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		switch {
		case strings.HasSuffix(name, suffix):
			var n uint64
			if fmt.Sscanf(name, "%d", &n); n == 0 || segmentPath(dir, n) != path {
				return nil, &FormatError{path, 0, errForeign}
			}
			numbers = append(numbers, n)
		case name == manifestName || name == manifestName+".new",
			name == documentsName || name == documentsName+".new":
			ours = true
		case name != lockName:
			ignored := e.IsDir() && (name == "lost+found" || strings.HasPrefix(name, "."))
			if !ignored {
				foreign = name
			}
			continue
		}
		if !e.Type().IsRegular() { // to open a pipe can take forever
			return nil, &FormatError{path, 0, errIrregular}
		}
	}
	if foreign != "" && !ours && len(numbers) == 0 {
		return nil, &FormatError{filepath.Join(dir, foreign), 0, errForeign}
	}
	return numbers, nil // ascending, as their names
}

// Report describes a directory that is not in use.
type Report struct {
	Segments   int
	Bytes      int64 // all segments together
	Histories  int   // that count, or that no sweep has removed yet
	Blocks     int   // likewise
	Operations int   // with an idempotency key, likewise
	Documents  int   // such as overrides (engine.Documents)
	Cut        Cut   // the end that Open would cut

	// End is the instant of the last change, or of the last snapshot if nothing changed since.
	End time.Time
}

// errNoStore is the error of a directory without a segment.
var errNoStore = errors.New("there is no store here yet")

// Check reads a directory that is not in use, as Open does, and changes nothing. Its errors
// are those of Open, and that of a directory without a store.
func Check(dir string) (Report, error) {
	return visit(dir, func(*memory.Change) error { return nil })
}

// visit calls each with all histories, blocks and operations of a directory, which it locks while
// it reads.
func visit(dir string, each func(*memory.Change) error) (r Report, err error) {
	dir, lock, err := claim(dir, false, true)
	if err != nil {
		return r, openError(dir, err)
	}
	c, err := load(&config{}, dir)
	lock.Close()
	if err == nil && len(c.segments) == 0 {
		err = errNoStore
	}
	if err != nil {
		return r, openError(dir, err)
	}
	r = Report{
		Segments:  len(c.segments),
		Bytes:     c.bytes,
		Documents: c.documents.Len(),
		Cut:       c.cut,
		End:       c.end(),
	}
	err = visitAll(c.decoder.memory, func(i *memory.Change) error {
		switch i.Kind {
		case memory.Remember:
			r.Operations++
		case memory.Block:
			r.Blocks++
		default:
			r.Histories++
		}
		return each(i)
	})
	return r, err
}

// visitAll calls each with all histories, blocks and operations, up to its first error.
func visitAll(m *memory.Memory, each func(*memory.Change) error) (err error) {
	place, now := memory.DumpPlace{}, m.Clock()
	for more := true; more && err == nil; {
		more = m.Dump(&place, snapshotStep, now, func(i *memory.Change) {
			if err == nil {
				err = each(i)
			}
		})
	}
	return err
}
