package weirdisk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/documents"
)

// documentsName is the file with the documents of operators (engine.Documents). It is missing until
// the first change of one. Each change replaces it: operators change documents seldom, and a file
// that is always whole needs no recovery. 10,000 overrides take about 4 MB.
//
// It has a line of JSON with the format and the identity of the directory, one for each document, and
// one with the checksum of the lines before.
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
}

// Documents returns the documents beside the histories. A write returns once the change is on
// stable storage, with any [SyncEvery].
func (e *Engine) Documents() engine.Documents {
	if e.isZero() {
		return documents.Failing(errZero)
	}
	return e.documents
}

// saveDocuments replaces the file, durably.
func (e *Engine) saveDocuments(all []documents.Stored) error {
	e.saving.Lock()
	defer e.saving.Unlock()
	fail := func(outcome, err error) error {
		return fmt.Errorf("%w: weirdisk: %s: %w%s", outcome,
			filepath.Join(e.log.dir, documentsName), err, nextStep(err, ""))
	}
	select {
	case <-e.stop:
		return fail(engine.ErrUnavailable, errClosed)
	default:
	}
	if err := e.keeper.moved(); err != nil {
		return fail(engine.ErrUnavailable, err)
	}
	path := filepath.Join(e.log.dir, documentsName)
	temporary := path + ".new"
	f, err := newFile(e.log.files, temporary, encodeDocuments(e.identity, all))
	if err != nil {
		return fail(engine.ErrUnavailable, err)
	}
	if err := f.Close(); err != nil {
		return fail(engine.ErrUnavailable, err)
	}
	if err := e.log.files.rename(temporary, path); err != nil {
		return fail(engine.ErrUnavailable, err)
	}
	if err := e.log.files.syncDir(e.log.dir); err != nil {
		return fail(engine.ErrOutcomeUnknown, err) // the next start may read either file
	}
	return nil
}

// encodeDocuments returns the content of the file.
func encodeDocuments(identity string, all []documents.Stored) []byte {
	slices.SortFunc(all, func(a, b documents.Stored) int { // so that people can compare two files
		return strings.Compare(a.Collection+"\x00"+a.Name, b.Collection+"\x00"+b.Name)
	})
	var b bytes.Buffer
	lines := json.NewEncoder(&b) // into memory, and of types that cannot fail
	lines.SetEscapeHTML(false)
	lines.Encode(documentsHeader{documentsFormat, identity})
	for i := range all {
		lines.Encode(&all[i])
	}
	b.WriteString(sumLine(b.Bytes()))
	return b.Bytes()
}

// loadDocuments reads the file of a directory into a store. A missing file has none.
func loadDocuments(dir, identity string, into *documents.Store) error {
	path := filepath.Join(dir, documentsName)
	b, err := readFile(path, maxDocuments)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	body, ok := cutSum(b)
	if !ok {
		return &FormatError{path, 0, errDocuments}
	}
	var header documentsHeader
	lines := json.NewDecoder(bytes.NewReader(body))
	switch err := lines.Decode(&header); {
	case err != nil:
		return &FormatError{path, 0, errDocuments}
	case header.Format > documentsFormat:
		return &FormatError{path, 0, errNewer}
	case identity == "":
		return &FormatError{path, 0, errNoManifest}
	case header.Identity != identity:
		return &FormatError{path, 0, errOtherOrigin}
	}
	for lines.More() {
		var d documents.Stored
		if err := lines.Decode(&d); err != nil {
			return &FormatError{path, lines.InputOffset(), errDocuments}
		}
		into.Load(d)
	}
	return nil
}

// cutSum returns the lines of a file before that with their checksum, and false if it differs.
func cutSum(b []byte) (body []byte, ok bool) {
	end := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1
	return b[:end], string(b[end:]) == sumLine(b[:end])
}
