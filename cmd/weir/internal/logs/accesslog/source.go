package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// MaxLineBytes is the largest size of one line, without its line ending.
const MaxLineBytes = 128 << 10

const (
	sampleBytes = 64 << 10 // read from a file to detect its format
	maxWaiting  = 1 << 17  // entries of one file that wait to be sorted
)

// ErrLong reports a line that does not fit in its buffer.
const ErrLong = problem("the line is longer than 131072 bytes")

const errTruncated = problem("the compressed data end early or are damaged here; is the file still being written?")

// source is one file.
type source struct {
	name   string
	index  int // in the arguments of Open
	format Format
	start  int64 // the least instant of the sample, less the window
	parser *parser
	stdin  bool
	once   bool // standard input or a pipe, which cannot be opened again

	closers []func() error
	text    io.Reader // decompressed
	lines   *bufio.Reader
	line    int64 // lines read
	ended   bool

	waiting timeline[*Entry]
	newest  int64 // the greatest instant read
}

// open opens a file, detects its format, and closes it again. Standard input and pipes stay
// open.
func (r *Reader) open(name string, index int) (*source, error) {
	s := &source{name: name, index: index, format: r.options.Format, stdin: name == "-", waiting: timeline[*Entry]{compare: (*Entry).compare}}
	if s.stdin && slices.ContainsFunc(r.files, func(f File) bool { return f.Name == name }) {
		return nil, errors.New("standard input, -, is given twice")
	}
	if err := s.openLines(r); err != nil {
		return nil, err
	}
	sample, format, err := sniff(s.lines, s.text, s.once, r.options)
	switch {
	case err == ErrEmpty:
		s.format, err = "", nil
	case sample != nil && s.format != "":
		err = nil // the named format is tried
	case format == JSONL && !r.options.Traces:
		err = problem("the file is a trace of JSON lines with at_us, not an access log")
	default:
		s.format = format
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.parser = newParser(s.format, r.options)
	s.start = s.least(sample) - r.window
	if !s.once {
		s.close()
	}
	return s, nil
}

// openLines opens the file for reading, decompressed.
func (s *source) openLines(r *Reader) error {
	in := r.options.stdin()
	if s.once = s.stdin; !s.stdin {
		f, err := os.Open(s.name)
		if err != nil {
			return err
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			f.Close()
			return fmt.Errorf("%s is a directory; name the log files in it", s.name)
		} else if err == nil {
			s.once = !info.Mode().IsRegular()
		}
		s.closers = append(s.closers, f.Close)
		in = f
	}
	text, closeText, err := Decompress(in)
	if err != nil {
		s.close()
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.closers, s.text = append(s.closers, closeText), text
	s.lines, s.line, s.ended = buffered(text, MaxLineBytes+2), 0, false
	return nil
}

// Decompress returns the text of in, which may be compressed by gzip or zstd: its first
// bytes decide. closeText releases memory and does not close in.
func Decompress(in io.Reader) (text io.Reader, closeText func() error, err error) {
	b := bufio.NewReaderSize(in, 64<<10)
	magic, _ := b.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err == io.ErrUnexpectedEOF || err == io.EOF {
			err = errTruncated
		}
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	case isZstandard(magic):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, func() error { z.Close(); return nil }, nil
	}
	return b, func() error { return nil }, nil
}

// isZstandard reports whether a file begins like a frame of zstd, or like a skippable frame,
// with which the files of pzstd begin.
func isZstandard(b []byte) bool {
	return bytes.Equal(b, []byte{0x28, 0xb5, 0x2f, 0xfd}) || len(b) == 4 && b[0]&0xf0 == 0x50 && bytes.Equal(b[1:], []byte{0x2a, 0x4d, 0x18})
}

// buffered returns a buffer of text without a byte order mark at its begin.
func buffered(text io.Reader, size int) *bufio.Reader {
	b := bufio.NewReaderSize(text, size)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		b.Discard(3)
	}
	return b
}

// isDamaged reports whether compressed data end early or are damaged: every error of a
// decompressor except one of the file below it.
func isDamaged(text io.Reader, err error) bool {
	if _, plain := text.(*bufio.Reader); plain || err == nil || err == io.EOF || err == bufio.ErrBufferFull {
		return false
	}
	var file *os.PathError
	return !errors.As(err, &file)
}

// Sniff returns the format of a text and the whole text again, decompressed. It waits for
// the first line only, because a pipe may still be written. The error is that of [Detect],
// or of reading; text is valid all the same if it is not nil.
func Sniff(in io.Reader) (f Format, text io.Reader, err error) {
	plain, _, err := Decompress(in)
	if err != nil {
		return "", nil, err
	}
	b := buffered(plain, MaxLineBytes)
	sample, f, err := sniff(b, plain, true, Options{})
	if sample == nil {
		return "", nil, err
	}
	return f, b, err
}

// sniff returns the first lines of a text and their format. The error is that of detection,
// errTruncated in its place if the data are damaged there, or with a nil sample that of
// reading.
func sniff(lines *bufio.Reader, text io.Reader, pipe bool, o Options) (sample []byte, f Format, err error) {
	sample, err = sampleOf(lines, pipe)
	damaged := isDamaged(text, err)
	if err != nil && !damaged {
		return nil, "", err
	}
	if f, err = detect(sample, o); err != nil && damaged {
		err = errTruncated
	}
	return sample[:len(sample):len(sample)], f, err
}

// sampleOf returns the first lines of a text. For a pipe it waits for one line only.
func sampleOf(lines *bufio.Reader, pipe bool) ([]byte, error) {
	want := sampleBytes
	if pipe {
		want = 1
	}
	b, err := lines.Peek(want)
	for pipe && err == nil && len(b) < sampleBytes {
		b, _ = lines.Peek(lines.Buffered())
		if end := bytes.LastIndexByte(b, '\n'); end >= 0 && slices.ContainsFunc(firstLines(b[:end]), isEntry) {
			return b, nil
		}
		b, err = lines.Peek(len(b) + 1)
	}
	if err == io.EOF || err == bufio.ErrBufferFull {
		err = nil
	}
	return b, err
}

// isEntry reports whether a line is not a comment of a W3C log.
func isEntry(line []byte) bool { return line[0] != '#' }

// least returns the least instant of the sample, or 0 if it has none.
func (s *source) least(sample []byte) int64 {
	p, r, least := newParser(s.format, s.parser.options), &row{}, int64(-1)
	for _, line := range firstLines(sample) {
		if !p.comment(line) && p.parse(r, line) == nil && (least < 0 || r.instant < least) {
			least = r.instant
		}
	}
	return max(0, least)
}

// compare orders sources by their first entries. A closed file comes before the entries that
// it may precede.
func (s *source) compare(other *source) int {
	at, isClosed := s.position()
	otherAt, otherClosed := other.position()
	return cmp.Or(cmp.Compare(at, otherAt), cmp.Compare(otherClosed, isClosed), cmp.Compare(s.index, other.index))
}

// position returns the instant before which the source has no entry; closed is 1 for a file
// of which no line was read.
func (s *source) position() (at int64, closed int) {
	if e := s.waiting.first(); e != nil {
		return e.At, 0
	}
	return s.start, 1
}

// fill reads lines until no later line within the window can come before the first entry.
func (s *source) fill(r *Reader) error {
	if s.lines == nil { // a file of which no line was read
		if err := s.openLines(r); err != nil {
			return err
		}
	}
	for !s.ended {
		if e := s.waiting.first(); e != nil && (s.newest-e.At >= r.window || s.waiting.Len() >= maxWaiting) {
			return nil
		}
		if err := s.read(r); err != nil {
			return err
		}
	}
	return nil
}

// read reads one line.
func (s *source) read(r *Reader) error {
	line, err := NextLine(s.lines)
	if len(line) > 0 || err == nil || err == ErrLong {
		s.line++
	}
	if err == io.EOF {
		s.ended = true
		return nil
	}
	if err == ErrLong {
		r.bad(s.name, s.line, err)
		return nil
	}
	if isDamaged(s.text, err) {
		r.bad(s.name, s.line, errTruncated)
		s.ended = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	line = bytes.TrimRight(line, " \t\r\n")
	if s.format == JSONL && IsTraceHeader(line) {
		h, err := ParseTraceHeader(line)
		if err != nil {
			r.bad(s.name, s.line, err)
			return nil
		}
		r.stats.Sample, r.stats.Dropped = max(r.stats.Sample, h.Sample), r.stats.Dropped+h.Dropped
		return nil
	}
	if len(line) == 0 || s.parser.comment(line) {
		return nil
	}
	if err := s.parser.parse(&r.row, line); err != nil {
		if r.stats.Bad < firstBad {
			err = otherFormat(line, s.format, r.options, err)
		}
		r.bad(s.name, s.line, err)
		return nil
	}
	e := r.entry()
	e.File, e.Line = s.name, s.line
	r.stats.Lines++
	r.stats.Entries++
	if e.At < year2000 {
		r.stats.Before2000++
	}
	s.newest = max(s.newest, e.At)
	s.waiting.add(e)
	if r.room -= e.size(); r.room < 0 {
		return fmt.Errorf("%s:%d: the lines that wait to be sorted take more than %d MiB; use a shorter --reorder, or fields with shorter values", s.name, s.line, maxHeld>>20)
	}
	return nil
}

// year2000 is the instant of 2000-01-01 in UTC.
const year2000 = 946_684_800 * micro

// NextLine returns the next line with its ending, valid until the next call. A line without
// an ending is the last. It skips a line that does not fit in the buffer and returns ErrLong.
func NextLine(lines *bufio.Reader) ([]byte, error) {
	b, err := lines.ReadSlice('\n')
	if err == io.EOF && len(b) > 0 {
		return b, nil
	}
	if err != bufio.ErrBufferFull {
		return b, err
	}
	for err == bufio.ErrBufferFull {
		_, err = lines.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return nil, ErrLong
}

// close closes the file.
func (s *source) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers, s.lines = nil, nil
	return errors.Join(errs...)
}
