package weirdisk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/documents"
)

// documentsName is the file with the documents of operators (engine.Documents). It is missing until
// the first change of one.
//
// Its first line has the format and the identity of the directory. Each further one is a document,
// or the change that has deleted it: the last line of a name counts. A line is a checksum in eight
// hex digits, a space, and JSON.
//
// A change is written at the end. The file is replaced before it has more than twice its first bytes
// and spareDocuments, and at an orderly end, if it has changes. Its first line has the number of the
// lines that were written before it had its name, so that they must be whole.
const documentsName = "DOCUMENTS"

// documentsFormat is the version of the file.
const documentsFormat = 1

// maxDocuments is the most bytes of the file that Open reads.
const maxDocuments = 4 << 30

var errDocuments = errors.New("is damaged")

// documentsHeader is the first line of the file.
type documentsHeader struct {
	Format   int    `json:"format"`
	Identity string `json:"identity"` // the directory's
	Lines    int    `json:"lines"`    // behind it, when the file was made
}

// Documents returns the documents beside the histories. A write returns once the change is on
// stable storage, with any [SyncEvery].
func (e *Engine) Documents() engine.Documents {
	if e.isZero() {
		return documents.Failing(errZero)
	}
	return e.documents
}

// documentsFile is the file of documents, open for the next change. The lock of documents.Store
// protects it.
type documentsFile struct {
	file    file  // nil: the next change replaces the file
	made    int64 // bytes when the file was made
	size    int64 // bytes now, all of them durable
	changed bool  // it may have more than was made, or have no durable name
}

// spareDocuments are the bytes that every file may grow by. So at most one in hundreds of changes of
// usual length replaces the file.
const spareDocuments = 64 << 10

// saveDocument writes a change, durably. all returns every document with the change.
func (e *Engine) saveDocument(changed *documents.Stored, all func() []documents.Stored) error {
	select {
	case <-e.stop:
		return e.failDocuments(engine.ErrUnavailable, errClosed)
	default:
	}
	if err := e.keeper.moved(); err != nil {
		return e.failDocuments(engine.ErrUnavailable, err)
	}
	d, line := &e.documentsFile, documentLine(changed)
	most := min(2*d.made+spareDocuments, maxDocuments)
	if d.size+int64(len(line)) <= most && e.hasDocuments() {
		return e.appendDocument(line)
	}
	return e.replaceDocuments(all())
}

// hasDocuments reports whether the file is open and in its place. An operator may have moved it away.
func (e *Engine) hasDocuments() bool {
	d := &e.documentsFile
	if d.file == nil {
		return false
	}
	info, err := os.Stat(e.documentsPath())
	return err == nil && info.Size() == d.size
}

// documentsPath returns the path of the file.
func (e *Engine) documentsPath() string { return filepath.Join(e.log.dir, documentsName) }

// storedDocuments is the content of the file at a start.
type storedDocuments struct {
	whole []byte // without a last line that is not; nil: there is no file
	made  int64  // its bytes when the file was made
}

// resumeDocuments opens the file behind its last whole line, and makes it durable. The process
// before may have ended while it wrote that line. Nobody may read a change that a power failure can
// still undo.
func (e *Engine) resumeDocuments(s *storedDocuments) (err error) {
	if s.whole == nil {
		return nil
	}
	d := &e.documentsFile
	d.made = s.made
	d.size = int64(len(s.whole))
	d.changed = d.size > d.made
	d.file, err = e.log.harden(e.documentsPath(), s.whole, s.made)
	return err
}

// failDocuments returns the error of a change that was not made, or whose outcome is unknown.
func (e *Engine) failDocuments(outcome, err error) error {
	return fmt.Errorf("%w: weirdisk: %s: %w%s", outcome, e.documentsPath(), err, nextStep(err, ""))
}

// appendDocument writes the line of a change behind the others.
func (e *Engine) appendDocument(line []byte) error {
	d := &e.documentsFile
	d.changed = true
	if _, err := d.file.Write(line); err != nil {
		return e.failDocuments(e.cutDocuments(), err)
	}
	if err := d.file.sync(); err != nil {
		d.end() // the next change replaces the file
		return e.failDocuments(engine.ErrOutcomeUnknown, err)
	}
	d.size += int64(len(line))
	return nil
}

// cutDocuments cuts a line off that was not written, or only in part, and returns the outcome of its
// change. It is unknown if the file may still have the whole line: the next start may read it.
func (e *Engine) cutDocuments() (outcome error) {
	d := &e.documentsFile
	err := d.file.Truncate(d.size)
	if err == nil {
		err = d.file.sync()
	}
	d.end()
	if err != nil {
		return engine.ErrOutcomeUnknown
	}
	if f, err := e.log.files.open(e.documentsPath(), false, d.size); err == nil {
		d.file = f // otherwise the next change replaces the file
	}
	return engine.ErrUnavailable
}

// end closes the file. The next change replaces it.
func (d *documentsFile) end() {
	if d.file != nil {
		d.file.Close() // what counts is synced
		d.file = nil
	}
}

// endDocuments closes the file. Before, it replaces a file that has changes, so that the next start
// finds any damage. After an error the old file is right, too: it has every acknowledged change.
func (e *Engine) endDocuments(all func() []documents.Stored) {
	d := &e.documentsFile
	if d.changed && e.keeper.moved() == nil {
		e.replaceDocuments(all())
	}
	d.end()
}

// replaceDocuments replaces the file with one of all documents, and opens it.
func (e *Engine) replaceDocuments(all []documents.Stored) error {
	d, on := &e.documentsFile, e.log.files
	d.end() // some systems replace no open file
	content := encodeDocuments(e.identity, all)
	path := e.documentsPath()
	temporary := path + ".new"
	f, err := newFile(on, temporary, content)
	if err != nil {
		return e.failDocuments(engine.ErrUnavailable, err)
	}
	if err := f.Close(); err != nil {
		return e.failDocuments(engine.ErrUnavailable, err)
	}
	d.changed = true
	if err := on.rename(temporary, path); err != nil {
		return e.failDocuments(engine.ErrUnavailable, err)
	}
	if err := on.syncDir(e.log.dir); err != nil {
		return e.failDocuments(engine.ErrOutcomeUnknown, err) // the next start may read either file
	}
	d.made = int64(len(content))
	d.size = d.made
	d.changed = false
	if f, err := on.open(path, false, d.size); err == nil {
		d.file = f // otherwise the next change replaces the file, too
	}
	return nil
}

// encodeDocuments returns the content of a file without changes.
func encodeDocuments(identity string, all []documents.Stored) []byte {
	slices.SortFunc(all, func(a, b documents.Stored) int { // so that people can compare two files
		return strings.Compare(a.Collection+"\x00"+a.Name, b.Collection+"\x00"+b.Name)
	})
	content := documentLine(documentsHeader{documentsFormat, identity, len(all)})
	for i := range all {
		content = append(content, documentLine(&all[i])...)
	}
	return content
}

// documentLine returns a line of the file.
func documentLine(x any) []byte {
	var b bytes.Buffer
	line := json.NewEncoder(&b) // into memory, and of types that cannot fail
	line.SetEscapeHTML(false)
	line.Encode(x)
	text := b.Bytes()
	return fmt.Appendf(nil, "%08x %s", crc32.Checksum(text, castagnoli), text)
}

// readDocumentLine reads a line with its end. It reports false if the line is not whole.
func readDocumentLine(line []byte, into any) bool {
	sum, text, ok := bytes.Cut(line, []byte(" "))
	return ok && string(sum) == fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) &&
		json.Unmarshal(text, into) == nil
}

// loadDocuments reads the file of a directory into c. A missing file has no documents. A last line
// that is not whole was not acknowledged, unless the file was changed later: it is left out.
func (c *contents) loadDocuments(dir string) error {
	path := filepath.Join(dir, documentsName)
	content, err := readFile(path, maxDocuments)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	var header documentsHeader
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	switch {
	case !readDocumentLine(content[:min(len(first)+1, len(content))], &header):
		return &FormatError{path, 0, errDocuments}
	case header.Format > documentsFormat:
		return &FormatError{path, 0, errNewer}
	case c.manifest.Identity == "":
		return &FormatError{path, 0, errNoManifest}
	case header.Identity != c.manifest.Identity:
		return &FormatError{path, 0, errOtherOrigin}
	}
	lines, newest := 0, int64(0)
	s := &c.documentsFile
	s.whole = content
	s.made = int64(len(content) - len(rest))
	for line := range bytes.Lines(rest) {
		at := int64(len(content) - len(rest))
		rest = rest[len(line):]
		var d documents.Stored
		switch {
		case readDocumentLine(line, &d):
			c.documents.Load(d)
			newest = max(newest, d.Version)
			if lines++; lines == header.Lines {
				s.made = int64(len(content) - len(rest))
			}
		case len(rest) > 0 || lines < header.Lines:
			return &FormatError{path, at, errDocuments}
		default:
			s.whole = content[:at]
			c.documentsCut = Cut{
				File:   path,
				Offset: at,
				Bytes:  int64(len(line)),
				Always: true,
				After:  time.UnixMicro(newest).UTC(),
			}
		}
	}
	if lines < header.Lines {
		return &FormatError{path, int64(len(content)), errDocuments}
	}
	return nil
}
