package weirdisk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
)

// manifestName is the file that states which segments must exist. It is durable before
// anything in a new segment is acknowledged, and before an old one is deleted.
const manifestName = "MANIFEST"

// manifest is the content of that file: a line of JSON, and a line with its checksum.
type manifest struct {
	Format   int      `json:"format"`
	Identity string   `json:"identity"` // random, of the directory
	Always   bool     `json:"always"`   // the last process has used SyncAlways
	Segments []stable `json:"segments"` // oldest first

	// Next is the number of a segment that is being written and holds nothing that counts. 0 = none.
	Next uint64 `json:"next"`

	Snapshot  int64 `json:"snapshot"`  // bytes of the last snapshot, without the changes meanwhile
	Histories int   `json:"histories"` // histories and operations in it
}

// stable is a segment that is on stable storage up to an offset. Only the last one may go on
// behind it.
type stable struct {
	Number uint64 `json:"number"`
	End    int64  `json:"end"`
	Sum    uint32 `json:"sum"` // checksum in the frame that ends there, or of the header
}

var (
	errNoManifest  = errors.New("is there, and " + manifestName + " is missing")
	errManifest    = errors.New("is damaged")
	errMissing     = errors.New("is missing, and " + manifestName + " names it")
	errUnnamed     = errors.New("is not named by " + manifestName + ", which is older or of another directory")
	errOtherOrigin = errors.New("belongs to another directory")
)

// readManifest returns the manifest of a directory. All errors but those of the operating
// system are a *FormatError.
func readManifest(dir string) (m manifest, err error) {
	path := filepath.Join(dir, manifestName)
	b, err := readFile(path)
	if err != nil {
		return m, err
	}
	line, sum, _ := bytes.Cut(b, []byte("\n"))
	var problem error
	switch {
	case string(sum) != sumLine(line) || json.Unmarshal(line, &m) != nil:
		problem = errManifest
	case m.Format > version:
		problem = errNewer
	case m.Format < version:
		problem = errOlder
	case len(m.Identity) != idSize:
		problem = errManifest
	default:
		return m, nil
	}
	return m, &FormatError{path, 0, problem}
}

func sumLine(line []byte) string { return fmt.Sprintf("%08x\n", crc32.Checksum(line, castagnoli)) }

// write replaces the manifest of the directory, durably. After an error the file is the old or the
// new one.
func (m *manifest) write(f files, dir string) error {
	m.Format = version
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, manifestName)
	temporary := path + ".new"
	to, err := newFile(f, temporary, append(append(line, '\n'), sumLine(line)...))
	if err != nil {
		return err
	}
	if err := errors.Join(to.Close(), f.rename(temporary, path)); err != nil {
		return err
	}
	return f.syncDir(dir)
}

// last is the newest segment.
func (m *manifest) last() *stable { return &m.Segments[len(m.Segments)-1] }

// names reports whether the segment with a number must exist.
func (m *manifest) names(number uint64) bool {
	return slices.ContainsFunc(m.Segments, func(s stable) bool { return s.Number == number })
}
