package weirdisk

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"slices"
)

// A segment is a header and frames. A frame is written by one write, and holds a batch of
// entries. Behind the last one there can be zeros, which were allocated and not written.
//
// A frame that cannot be read has one of two reasons, and Open must tell them apart. It may be the
// end of a write that a power failure has torn: its calls had no durable answer, and it is cut. Or
// a disk has lost bytes that were durable: then Open fails. So each frame has a lag. It is the
// distance from the frame back to the end of the bytes that were on stable storage when it was
// written. If a whole frame proves by its lag that the unreadable one was stable, it is the second
// reason (searchBehind).
const (
	magic      = "weirdisk"
	version    = 6
	idSize     = 26       // bytes of the directory's identity
	maxBatch   = 1 << 30  // most bytes of a batch
	maxSegment = 64 << 30 // most bytes of a segment, without zeros behind its frames

	// The magic, version, flags, number, base, identity, and checksum of these.
	headerSize = 8 + 4 + 4 + 8 + 8 + idSize + 4

	// The marker, length, lag, checksum of these, and checksum of the entries.
	frameSize = 1 + 4 + 4 + 4 + 4

	// flagRepair marks a segment that was begun after a failure. The manifest names it once it
	// has a whole snapshot. The manifest names every other segment before its first frame.
	flagRepair = 1
)

// marker begins a frame. A search for frames behind damage looks only at markers. At a byte that
// is a marker by chance it makes no more than a checksum of 20 bytes.
var marker = []byte{0xf7}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// suffix ends the names of segments.
const suffix = ".weirlog"

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016d%s", number, suffix))
}

// header is the beginning of a segment.
type header struct {
	number   uint64
	base     int64  // instant of creation in microseconds, by the engine's clock
	identity string // the directory's
	repair   bool
}

// bytes returns the header as stored.
func (h *header) bytes() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), version)
	b = binary.LittleEndian.AppendUint32(b, uint32(flagIf(h.repair, flagRepair)))
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.base))
	b = append(b, h.identity...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// start is the end of a segment without frames.
func (h *header) start() stable { return stable{h.number, headerSize, h.sum()} }

// sum returns the checksum in the header. The checksums of all frames depend on it, so a frame
// of another segment or directory is no frame here.
func (h *header) sum() uint32 { return binary.LittleEndian.Uint32(h.bytes()[headerSize-4:]) }

// readHeader returns the header at the beginning of b.
func readHeader(b []byte) (h header, err error) {
	switch {
	case len(b) == 0:
		return h, errors.New("is empty")
	case len(b) < len(magic)+4 || string(b[:len(magic)]) != magic:
		return h, errForeign
	case binary.LittleEndian.Uint32(b[8:]) > version:
		return h, errNewer
	case binary.LittleEndian.Uint32(b[8:]) < version:
		return h, errOlder
	case len(b) < headerSize:
		return h, errHeader
	case binary.LittleEndian.Uint32(b[headerSize-4:]) != crc32.Checksum(b[:headerSize-4],
		castagnoli):
		return h, errHeader
	}
	h.repair = b[12]&flagRepair != 0
	h.number = binary.LittleEndian.Uint64(b[16:])
	h.base = int64(binary.LittleEndian.Uint64(b[24:]))
	h.identity = string(b[32 : 32+idSize])
	return h, nil
}

// sums returns the two checksums of a frame at an offset of the segment with that header. The
// first one covers the place, the length and the lag, the second one also the entries.
func sums(header uint32, offset int64, head, entries []byte) (first, second uint32) {
	var b [20]byte
	binary.LittleEndian.PutUint32(b[:], header)
	binary.LittleEndian.PutUint64(b[4:], uint64(offset))
	copy(b[12:], head[1:9])
	first = crc32.Checksum(b[:], castagnoli)
	return first, crc32.Update(first, castagnoli, entries)
}

// seal fills in the first frameSize bytes of a frame for its offset. The segment is on stable
// storage up to synced. seal returns the checksum of the entries.
func seal(b []byte, header uint32, offset, synced int64) uint32 {
	copy(b, marker)
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-frameSize))
	binary.LittleEndian.PutUint32(b[5:], lag(offset, synced))
	first, second := sums(header, offset, b, b[frameSize:])
	binary.LittleEndian.PutUint32(b[9:], first)
	binary.LittleEndian.PutUint32(b[13:], second)
	return second
}

// lag returns offset-synced for the head of a frame, at most math.MaxUint32.
func lag(offset, synced int64) uint32 { return uint32(min(offset-synced, math.MaxUint32)) }

// syncedBefore returns the offset up to which a segment was on stable storage, by the lag of a
// frame at an offset. The greatest lag states nothing, so the offset is 0.
func syncedBefore(offset int64, lag uint32) int64 {
	if lag == math.MaxUint32 {
		return 0
	}
	return offset - int64(lag)
}

// stored is a segment as read.
type stored struct {
	path   string
	header header
	sum    uint32 // the header's checksum
	data   []byte
	at     stable // the end, behind the last whole frame
	synced int64  // offset up to which it is on stable storage, at least

	summed int64 // bytes in checksums so far, which a test bounds
}

// frame is a frame as read.
type frame struct {
	entries []byte
	synced  int64  // offset up to which the segment was on stable storage before it was written
	sum     uint32 // the entries' checksum
}

// size is the bytes of a frame.
func (f *frame) size() int64 { return frameSize + int64(len(f.entries)) }

// frameAt returns the frame at an offset. It reports false if there is no whole one. The first
// checksum is verified first. Random bytes seldom pass it, so in a search the checksums of entries
// take linear time.
func (s *stored) frameAt(offset int64) (f frame, ok bool) {
	b := s.data[offset:]
	if len(b) < frameSize || !bytes.HasPrefix(b, marker) {
		return f, false
	}
	n := binary.LittleEndian.Uint32(b[1:])
	if n == 0 || n > maxBatch || int(n) > len(b)-frameSize {
		return f, false
	}
	s.summed += frameSize
	first, _ := sums(s.sum, offset, b, nil)
	if first != binary.LittleEndian.Uint32(b[9:]) {
		return f, false
	}
	f = frame{
		entries: b[frameSize : frameSize+int(n)],
		synced:  syncedBefore(offset, binary.LittleEndian.Uint32(b[5:])),
		sum:     binary.LittleEndian.Uint32(b[13:]),
	}
	s.summed += int64(n)
	return f, f.sum == crc32.Update(first, castagnoli, f.entries)
}

// searchBehind searches the frames behind an offset. It reports whether one proves that the segment
// was on stable storage beyond the offset. Then the frame at the offset was damaged later.
// Otherwise it was never written whole, and changes is the number of changes in the frames behind.
// The search takes linear time.
func (s *stored) searchBehind(offset int64) (wasStable bool, changes int) {
	for at := offset + 1; ; at++ {
		next := bytes.Index(s.data[at:], marker)
		if next < 0 {
			return false, changes
		}
		at += int64(next)
		if f, ok := s.frameAt(at); ok {
			if f.synced > offset {
				return true, 0
			}
			changes += countChanges(f.entries)
			at += f.size() - 1
		}
	}
}

// manifestName is the file that states which segments must exist. It is durable before
// anything in a new segment is acknowledged, and before an old one is deleted.
const manifestName = "MANIFEST"

// maxManifest is the most bytes of a manifest, which seldom names more than two segments.
const maxManifest = 1 << 20

// manifest is the content of that file: a line of JSON, and a line with its checksum.
type manifest struct {
	Format   int      `json:"format"`
	Identity string   `json:"identity"` // random name of the directory
	Always   bool     `json:"always"`   // the last process has used SyncAlways
	Segments []stable `json:"segments"` // oldest first

	// Next is the number of a segment that is being written and holds nothing that counts. 0 =
	// none.
	Next uint64 `json:"next"`

	Snapshot  int64 `json:"snapshot"`  // bytes of the last snapshot, without the changes meanwhile
	Histories int   `json:"histories"` // histories and operations in it
}

// stable is a segment that is on stable storage up to an offset. Only the last segment may go on
// behind its offset.
type stable struct {
	Number uint64 `json:"number"`
	End    int64  `json:"end"`
	Sum    uint32 `json:"sum"` // checksum in the frame that ends there, or of the header
}

// readManifest returns the manifest of a directory. All errors but those of the operating
// system are a *FormatError.
func readManifest(dir string) (m manifest, err error) {
	path := filepath.Join(dir, manifestName)
	b, err := readFile(path, maxManifest)
	if err != nil {
		return m, err
	}
	line, sum, _ := bytes.Cut(b, []byte("\n"))
	switch {
	case string(sum) != sumLine(line) || json.Unmarshal(line, &m) != nil:
		err = errManifest
	case m.Format == version && len(m.Identity) != idSize:
		err = errManifest
	case m.Format > version:
		err = errNewer
	case m.Format < version:
		err = errOlder
	default:
		return m, nil
	}
	return m, &FormatError{path, 0, err}
}

func sumLine(line []byte) string { return fmt.Sprintf("%08x\n", crc32.Checksum(line, castagnoli)) }

// write replaces the manifest of the directory, durably. After an error the file is the old or the
// new one.
func (m *manifest) write(f files, dir string) error {
	m.Format = version
	line, _ := json.Marshal(m) // has no value that fails
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

// named returns the segment with a number, or nil if it need not exist.
func (m *manifest) named(number uint64) *stable {
	i := slices.IndexFunc(m.Segments, func(s stable) bool { return s.Number == number })
	if i < 0 {
		return nil
	}
	return &m.Segments[i]
}
