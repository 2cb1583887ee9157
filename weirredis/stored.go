package weirredis

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// This file decodes what the scripts store, for Inspect. It makes the checks of the scripts.
// lua/layout.lua, lua/bucket.lua and lua/appointments.lua have the layouts, and lua/number.lua the
// coding of entries.

// The first bytes of headers.
const (
	formShort  = "\x01"
	formLong   = "\x02"
	formBucket = "\x03"
	formBlock  = "\x04"
	formAhead  = "\x05"
)

// The bytes of headers. A short and a long one end with a text, the length of which is their last
// byte.
const (
	shortBytes  = 28
	longBytes   = 62
	bucketBytes = 56
	blockBytes  = 15
	aheadBytes  = 12 // without the appointments
	itemBytes   = 14 // of an appointment
	finalBytes  = 21 // of the bucket after the last one
	chunkBytes  = 15 // before the entries of a chunk
)

var (
	errCutOff  = ReplyError("weir:state the header is cut off")
	errDamaged = ReplyError("weir:state the header is damaged")
	errChunk   = ReplyError("weir:state a chunk is missing or cut off")
	errEntry   = ReplyError("weir:state an entry is missing")
	errSum     = ReplyError("weir:state a sum of units is damaged")
)

// longestWindow is that of a limit, 400 days.
const longestWindow int64 = 400 * 24 * 3600 * 1_000_000

// isInstant reports whether a stored number is an instant or a span.
func isInstant(n int64) bool { return n <= engine.MaxInstant }

// storedBlock is a block before a header. Times are microseconds.
type storedBlock struct{ begin, length int64 }

// cutBlock reads the block before a header.
func cutBlock(head string) (b storedBlock, rest string, err error) {
	if len(head) < blockBytes {
		return b, "", errCutOff
	}
	b = storedBlock{int56At(head, 1), int56At(head, 8)}
	if !isInstant(b.begin) || !isInstant(b.length) {
		return b, "", errDamaged
	}
	return b, head[blockBytes:], nil
}

// cutAhead reads the appointments before a header. The bucket after the last one follows from them,
// so it is skipped.
func cutAhead(head string) (ahead []memory.Entry, rest string, err error) {
	const withFinal = 1 << 31
	if len(head) < aheadBytes {
		return nil, "", errCutOff
	}
	count := int64(binary.BigEndian.Uint32([]byte(head[8:aheadBytes])))
	behind := aheadBytes + itemBytes*int(count&^withFinal)
	if count >= withFinal {
		behind += finalBytes
	}
	if len(head) <= behind {
		return nil, "", errCutOff
	}
	sum := int56At(head, 1)
	for i := range int(count &^ withFinal) {
		at := aheadBytes + itemBytes*i
		e := memory.Entry{End: int56At(head, at), Units: int56At(head, at+7)}
		ahead = append(ahead, e)
		sum -= e.Units
	}
	if sum != 0 {
		return nil, "", errDamaged
	}
	return ahead, head[behind:], nil
}

// versionError is the error of a header of another form.
func versionError(head string) error {
	if head == "" {
		return errCutOff
	}
	return ReplyError(fmt.Sprintf("weir:state version %d", head[0]))
}

// readBucket reads a bucket.
func readBucket(c *memory.Change, head string, _ map[string]string) error {
	switch {
	case !strings.HasPrefix(head, formBucket):
		return versionError(head)
	case len(head) != bucketBytes:
		return errCutOff
	}
	last, debt := int56At(head, 1), int56At(head, 14)
	rest, since := int56At(head, 21), int56At(head, 28)
	whole, part := int56At(head, 35), int56At(head, 42)
	per := int56At(head, 49)
	areEarly := isInstant(last) && isInstant(debt) && isInstant(since)
	// Max and Window in lowest terms: Max units flow in per Window.
	isRate := 0 < per && per <= engine.MaxUnits && part < per && whole+part > 0
	if !areEarly || !isRate || rest >= per || whole > longestWindow/per {
		return errDamaged
	}
	c.At, c.Full = last, last+debt
	c.Part, c.Front = rest, since
	c.Max, c.Window = per, whole*per+part
	return nil
}

// storedHistory is the header of a history with entries.
type storedHistory struct {
	last, first, newest int64
	own, late, units    int64
	chunks              int64 // their number
	from                int64 // number of the oldest chunk
	skip                int   // the byte at which its entries begin, from 1
	tail                string
}

// readEntries reads a history with entries.
func readEntries(c *memory.Change, head string, hash map[string]string) error {
	size := longBytes
	switch {
	case strings.HasPrefix(head, formShort):
		size = shortBytes
	case !strings.HasPrefix(head, formLong):
		return versionError(head)
	}
	if len(head) < size || len(head) != size+int(head[size-1]) {
		return errCutOff
	}
	var h storedHistory
	if h.read(head, size); h.isDamaged() {
		return errDamaged
	}
	c.At = h.last
	if h.units == 0 {
		return nil
	}
	texts, err := h.chunksOf(hash)
	if err != nil {
		return err
	}
	c.Entries, err = h.entriesOf(append(texts, h.tail))
	return err
}

// entriesOf returns the entries of some texts, and the newest one, which is in the header.
func (h *storedHistory) entriesOf(texts []string) (entries []memory.Entry, err error) {
	mark, sum := h.first, h.own
	for _, text := range texts {
		r := entryReader{text: text}
		for r.text != "" {
			gap, units := r.next()
			if units > 0 {
				entries = append(entries, memory.Entry{End: mark, Units: units})
			}
			mark += gap
			sum += units
			if r.isBad || !isInstant(mark) {
				return nil, errEntry
			}
		}
	}
	switch {
	case mark != h.newest:
		return nil, errEntry
	case sum != h.units:
		return nil, errSum
	}
	return append(entries, memory.Entry{End: h.newest, Units: h.own}), nil
}

// read reads a header of that size.
func (h *storedHistory) read(head string, size int) {
	h.last, h.first = int56At(head, 1), int56At(head, 8)
	h.tail = head[size:]
	if size == shortBytes {
		h.own = int64(binary.BigEndian.Uint16([]byte(head[21:])))
		h.units = int64(binary.BigEndian.Uint32([]byte(head[23:])))
		h.newest = h.last
		return
	}
	h.own, h.units = int56At(head, 21), int56At(head, 28)
	h.newest = int56At(head, 35)
	h.from = int56At("\x00"+head[42:], 0)
	h.chunks = int64(binary.BigEndian.Uint32([]byte(head[48:])))
	h.skip = int(binary.BigEndian.Uint16([]byte(head[52:])))
	if h.chunks > 0 {
		h.late = int56At(head, 54)
	}
}

// isDamaged reports whether numbers of a header do not fit each other. A mark is less than a cell of
// 2^48 microseconds ahead of its instant.
func (h *storedHistory) isDamaged() bool {
	if h.units == 0 {
		return h.own > 0 || !isInstant(h.last)
	}
	areOrdered := h.first <= h.newest && h.newest < h.last+1<<48
	isSum := h.own > 0 && h.own+h.late <= h.units && h.units <= 1<<52
	return !areOrdered || !isSum || !isInstant(h.last)
}

// chunksOf returns the entries of the chunks, oldest first.
func (h *storedHistory) chunksOf(hash map[string]string) (texts []string, err error) {
	for i := range h.chunks {
		chunk, found := hash[strconv.FormatInt(h.from+i, 10)]
		if !found || len(chunk) <= chunkBytes || len(chunk) != chunkBytes+int(chunk[chunkBytes-1]) {
			return nil, errChunk
		}
		begin := chunkBytes
		if i == 0 {
			begin = h.skip - 1
		}
		if begin < chunkBytes || begin > len(chunk) {
			return nil, errChunk
		}
		texts = append(texts, chunk[begin:])
	}
	return texts, nil
}

// entryReader reads entries from the beginning of a text.
type entryReader struct {
	text  string
	isBad bool // the text was cut off, or a number is too large
}

// next reads an entry: the gap to the next one, and its units.
func (r *entryReader) next() (gap, units int64) {
	gap, hasUnits := r.number()
	if !hasUnits {
		return gap, 1
	}
	units, _ = r.number()
	return gap, units
}

// number reads a number, and whether its first bit is set. The next bits give its size.
func (r *entryReader) number() (n int64, flagged bool) {
	if r.text == "" {
		r.isBad = true
		return 0, false
	}
	first := int64(r.text[0])
	flagged = first >= 128
	first &= 127
	size := 8 // the last seven bytes are the number
	switch {
	case first < 64:
		size, n = 2, first
	case first < 96:
		size, n = 3, first-64
	case first < 112:
		size, n = 4, first-96
	case first < 120:
		size, n = 5, first-112
	}
	if len(r.text) < size {
		r.isBad, r.text = true, ""
		return 0, false
	}
	for _, b := range []byte(r.text[1:size]) {
		n = n<<8 + int64(b)
	}
	r.text = r.text[size:]
	r.isBad = r.isBad || !isInstant(n)
	return n, flagged
}
