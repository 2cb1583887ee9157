package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
)

// MaxLineBytes is the largest size of one line, without its line ending.
const MaxLineBytes = 128 << 10

const (
	stdin = "-" // the name of standard input

	// sampleBytes is the size of the part of a file from which its format is detected. If that is
	// not possible, because of long lines or many messages, the part is larger: wideSample.
	sampleBytes = 64 << 10
	wideSample  = 4 << 20

	headBytes  = 4 << 10          // the part of a sample by which a copy of another file is noticed
	lineBuffer = MaxLineBytes + 2 // the size of the buffer of a file: a line with its ending
	maxWaiting = 1 << 17          // the largest number of waiting entries of one file
)

// ErrLong reports a line that does not fit in its buffer.
const ErrLong = problem("the line is longer than 131072 bytes")

const errBlank = problem("the first 4194304 bytes are blank lines; remove them, " +
	"or name the format with --format")

const errReplaced = problem("the file was replaced while it was read; run again")

const errTruncated = problem("the compressed data end early or are damaged here; " +
	"is the file still being written?")

// Errors of files that are neither logs nor traces that can be read.
const (
	ErrDirectory = problem("is a directory")
	ErrMixed     = problem("is not a trace") // and a file before it is one
	errTrace     = problem("the file is a trace of JSON lines with at_us, not an access log")
)

// source is one file of a Reader.
type source struct {
	*Reader
	name   string
	index  int // the index of its name in the arguments of Open
	format Format
	start  int64 // the least instant of the sample, less the window: no entry should be earlier
	parser *parser
	file   os.FileInfo // as Open found it
	copyOf string      // File.CopyOf
	once   bool        // it is standard input or a pipe, which cannot be opened again

	closers []func()
	text    io.Reader     // the decompressed text
	lines   *bufio.Reader // reads text; nil = the file is closed
	line    int64         // the number of lines read
	entries int64         // the number of lines with an entry
	bad     int64         // the number of lines that may have another format
	ended   bool          // all lines were read
	newHole int64         // zero bytes that were skipped, and that Stats do not count yet

	waiting waiting
	newest  int64 // the greatest instant read
}

// open opens a file, detects its format, and closes it again. Standard input and pipes stay
// open.
func (r *Reader) open(name string, index int) (*source, error) {
	s := &source{
		Reader:  r,
		name:    name,
		index:   index,
		waiting: newWaiting(),
	}
	if name == stdin && slices.ContainsFunc(r.files, func(f File) bool { return f.Name == name }) {
		return nil, errors.New("standard input, -, is given twice")
	}
	if err := s.openLines(); err != nil {
		return nil, err
	}
	sample, err := s.detectFormat(sampleBytes)
	if err != nil && len(sample) >= sampleBytes {
		sample, err = s.detectFormat(wideSample)
	}
	if err != nil {
		s.close()
		if err == ErrMixed {
			return nil, fmt.Errorf("%s %w, and %s is one", name, err, r.files[0].Name)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.parser = newParser(s.format, r.options)
	least := s.least(sample)
	s.start = least - r.window
	if !s.once {
		s.close()
		if least > 0 {
			s.copyOf = r.copyOf(name, sample)
		}
	}
	return s, nil
}

// detectFormat sets the format by the first bytes of the file, at most most of them, and returns
// these. They stay unread, because a pipe cannot be opened again.
func (s *source) detectFormat(most int) (sample []byte, err error) {
	ahead := bufio.NewReaderSize(s.lines, most)
	sample, err = sampleOf(ahead, most, s.once, s.options)
	if damaged := s.isDamaged(err); err == nil || damaged {
		s.format, err = s.formatOf(sample, len(sample) < most, damaged)
	}
	if ahead != s.lines {
		read, _ := ahead.Peek(ahead.Buffered())
		text := io.MultiReader(bytes.NewReader(read), s.lines)
		s.lines = bufio.NewReaderSize(text, lineBuffer)
	}
	return sample, err
}

// copyOf returns the first file that begins with the same lines as sample, or "". A copy may have
// another name, be compressed, or have been made before the log grew.
func (r *Reader) copyOf(name string, sample []byte) string {
	head := string(sample[:min(len(sample), headBytes)])
	first, isCopy := r.heads[head]
	if !isCopy {
		r.heads[head] = name
	}
	return first
}

// formatOf returns the format of the next file by its first lines; "" for a file without lines.
// isWhole reports that there are no further lines, and damaged that compressed data are damaged behind
// them.
func (r *Reader) formatOf(sample []byte, isWhole, damaged bool) (Format, error) {
	detected, err := detect(sample, r.options)
	if err == errUTF16 {
		return "", err
	}
	isEmpty := err == errEmpty && !damaged
	if isEmpty && isWhole {
		return "", nil
	}
	if isEmpty && r.options.Format == "" {
		return "", errBlank
	}
	if r.options.WholeTraces {
		format, err := r.wholeTrace(sample, detected, err)
		if format != "" || err != nil {
			return format, err
		}
	}
	switch {
	case r.options.Format != "":
		return r.options.Format, nil // lines that do not fit are bad ones
	case err != nil && damaged:
		return "", errTruncated
	}
	return detected, err
}

// wholeTrace decides whether a file is a trace, for Options.WholeTraces. It returns JSONL for a first
// file of unknown JSON, an error for a trace among logs or a log among traces, and otherwise neither.
// detected and wrong are the results of detect.
func (r *Reader) wholeTrace(sample []byte, detected Format, wrong error) (Format, error) {
	isNamed := r.options.Format != ""
	first := slices.IndexFunc(r.files, func(f File) bool { return f.Format != "" })
	if first < 0 {
		if !isNamed && wrong != nil && looksLikeJSON(sample) {
			return JSONL, nil
		}
		return "", nil
	}
	isTrace := r.files[first].Format == JSONL
	switch {
	case isTrace && detected != JSONL:
		return "", ErrMixed
	case !isTrace && !isNamed && detected == JSONL:
		return "", errTrace
	}
	return "", nil
}

// openLines opens the file for reading, decompressed.
func (s *source) openLines() error {
	in := s.options.Stdin
	s.once = s.name == stdin
	if !s.once {
		f, err := os.Open(s.name)
		if err != nil {
			return err
		}
		if err := s.checkFile(f); err != nil {
			f.Close()
			return err
		}
		s.closers = append(s.closers, func() { f.Close() })
		in = f
	}
	text, err := decompress(in)
	if err != nil {
		s.close()
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if z, ok := text.(*zstd.Decoder); ok {
		s.closers = append(s.closers, z.Close)
	}
	s.text = text
	s.lines = bufio.NewReaderSize(text, lineBuffer)
	s.line = 0
	s.ended = false
	if mark, _ := s.lines.Peek(3); string(mark) == "\ufeff" { // a byte order mark
		s.lines.Discard(3)
	}
	s.newHole = skipZeros(s.lines)
	return nil
}

// checkFile rejects a directory, and a file that is not the one that Open found.
func (s *source) checkFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return nil // reading fails, or works
	}
	if info.IsDir() {
		return fmt.Errorf("%s %w", s.name, ErrDirectory)
	}
	s.once = !info.Mode().IsRegular()
	if s.file != nil && !os.SameFile(s.file, info) {
		return &os.PathError{Op: "open", Path: s.name, Err: errReplaced}
	}
	s.file = info
	return nil
}

// skipZeros skips a hole of zero bytes, as copytruncate of logrotate and a crash leave it, and
// returns its size. One zero byte is left where no line is behind it.
func skipZeros(lines *bufio.Reader) (n int64) {
	for {
		first, _ := lines.Peek(1)
		if len(first) == 0 || first[0] != 0 {
			return n
		}
		b, _ := lines.Peek(lines.Buffered())
		end := bytes.IndexFunc(b, func(c rune) bool { return c != 0 })
		if end < 0 {
			end = len(b)
		}
		lines.Discard(end)
		n += int64(end)
	}
}

// decompress returns the text of in, which may be compressed by gzip or zstd: its first
// bytes decide.
func decompress(in io.Reader) (text io.Reader, err error) {
	b := bufio.NewReaderSize(in, 64<<10)
	magic, _ := b.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		text, err = gzip.NewReader(b)
		if err == io.ErrUnexpectedEOF || err == io.EOF {
			err = errTruncated
		}
		return text, err
	case isZstandard(magic):
		return zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	}
	if name := otherCompression(magic); name != "" {
		return nil, problem(fmt.Sprintf("the file is compressed by %s, which is not read; "+
			"decompress it, or compress it by gzip or zstd", name))
	}
	return b, nil
}

// otherCompression returns the name of a compression that is not read, by the first bytes of a file;
// "" if it has none of them.
func otherCompression(magic []byte) string {
	switch {
	case bytes.HasPrefix(magic, []byte("BZh")):
		return "bzip2"
	case bytes.HasPrefix(magic, []byte("\xfd7zX")):
		return "xz"
	case bytes.HasPrefix(magic, []byte("\x04\x22\x4d\x18")):
		return "lz4"
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return "zip"
	case bytes.HasPrefix(magic, []byte("\x1f\x9d")):
		return "compress"
	}
	return ""
}

// isZstandard reports whether a file begins like a frame of zstd, or like a skippable frame,
// with which the files of pzstd begin.
func isZstandard(b []byte) bool {
	isFrame := bytes.Equal(b, []byte{0x28, 0xb5, 0x2f, 0xfd})
	isSkippable := len(b) == 4 && b[0]&0xf0 == 0x50 && bytes.Equal(b[1:], []byte{0x2a, 0x4d, 0x18})
	return isFrame || isSkippable
}

// isDamaged reports whether compressed data end early or are damaged: every error of a
// decompressor except one of the file below it.
func (s *source) isDamaged(err error) bool {
	if _, plain := s.text.(*bufio.Reader); plain {
		return false
	}
	if err == nil || err == io.EOF || err == bufio.ErrBufferFull {
		return false
	}
	return !errors.As(err, new(*os.PathError))
}

// Read reads the text of the file. Errors of the decompressor name the file, as those of the
// system do.
func (s *source) Read(b []byte) (int, error) {
	if s.lines == nil {
		if err := s.openLines(); err != nil {
			return 0, err
		}
	}
	n, err := s.lines.Read(b)
	if s.isDamaged(err) {
		err = &os.PathError{Op: "read", Path: s.name, Err: err}
	}
	return n, err
}

// sampleOf returns the first lines of a text, up to most bytes. For a pipe it waits for one line
// only, which fits a format or stands behind the header of a W3C log.
func sampleOf(lines *bufio.Reader, most int, pipe bool, o Options) ([]byte, error) {
	want := most
	if pipe {
		want = 1
	}
	b, err := lines.Peek(want)
	fits := isEntry(newBallot(o))
	seen := 0 // bytes of b that were looked at
	for pipe && err == nil && len(b) < most {
		b, _ = lines.Peek(lines.Buffered())
		end := bytes.LastIndexByte(b, '\n') + 1
		if slices.ContainsFunc(firstLines(b[seen:max(seen, end)]), fits) {
			return b, nil
		}
		seen = max(seen, end)
		b, err = lines.Peek(len(b) + 1)
	}
	if err == io.EOF || err == bufio.ErrBufferFull {
		err = nil
	}
	return b, err
}

// isEntry returns a function that reports whether a line is an access, or stands behind a header of a
// W3C log.
func isEntry(b *ballot) func(line []byte) bool {
	hasHeader := false
	return func(line []byte) bool {
		hasHeader = hasHeader || bytes.HasPrefix(line, []byte(fieldsHeader))
		return line[0] != '#' && (hasHeader || b.options.Format != "" || b.vote(line))
	}
}

// least returns the least instant of the sample, or 0 if it has none.
func (s *source) least(sample []byte) int64 {
	p := newParser(s.format, s.parser.options)
	r := new(row)
	least := int64(math.MaxInt64)
	for _, line := range firstLines(sample) {
		if p.readComment(line) && s.format != JSONL {
			continue
		}
		if p.parse(r, line) == nil {
			least = min(least, r.instant)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// compare orders sources by their first entries. A file of which no line was read comes before an
// entry of another file at the same instant, because it has to be opened before.
func (s *source) compare(other *source) int {
	at, isClosed := s.position()
	otherAt, otherClosed := other.position()
	return cmp.Or(cmp.Compare(at, otherAt), cmp.Compare(otherClosed, isClosed),
		cmp.Compare(s.index, other.index))
}

// position returns the instant before which the source has no entry; closed is 1 for a file
// of which no line was read.
func (s *source) position() (at int64, closed int) {
	if e := s.waiting.first(); e != nil {
		return e.At, 0
	}
	return s.start, 1
}

// readAhead reads lines until no later line within the window can come before the first entry.
func (s *source) readAhead() error {
	if s.lines == nil { // a file of which no line was read
		if err := s.openLines(); err != nil {
			return err
		}
	}
	for !s.ended {
		e := s.waiting.first()
		if e != nil && s.newest-e.At >= s.window {
			return nil
		}
		if s.waiting.Len() >= maxWaiting {
			s.stats.Crowded = true
			return nil
		}
		if err := s.read(); err != nil {
			return err
		}
	}
	return nil
}

// read reads one line, and counts one that is not readable.
func (s *source) read() error {
	if s.line > 0 {
		s.newHole = skipZeros(s.lines)
	}
	s.stats.Zeros += s.newHole
	s.newHole = 0
	line, err := NextLine(s.lines)
	if len(line) > 0 || err == nil || err == ErrLong {
		s.line++
	}
	switch {
	case err == io.EOF:
		s.ended = true
		return nil
	case err == nil:
		err = s.takeLine(bytes.TrimSpace(line))
	case err == ErrLong:
	case s.isDamaged(err):
		err = errTruncated
		s.ended = true
	default:
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if err != nil {
		s.takeBehindHole(line)
		s.stats.Bad++
		if err != errLogger { // which is of the format, too
			s.bad++
		}
		if len(s.stats.First) < firstBad {
			s.stats.First = append(s.stats.First, BadLine{s.name, s.line, err.Error()})
		}
	}
	if s.room < 0 {
		return fmt.Errorf("%s:%d: the lines that wait to be sorted take more than %d MiB; "+
			"use a shorter --reorder, or fields with shorter values",
			s.name, s.line, maxHeld>>20)
	}
	return nil
}

// takeBehindHole adds the entry of a good line behind a cut one and a hole of zero bytes, which a
// crash leaves between them. The bad line is the cut one.
func (s *source) takeBehindHole(line []byte) {
	end := bytes.LastIndexByte(line, 0) + 1
	behind := bytes.TrimSpace(line[end:])
	if end == 0 || len(behind) == 0 || s.takeLine(behind) != nil {
		return
	}
	cut := bytes.TrimRight(line[:end], "\x00")
	s.stats.Zeros += int64(end - len(cut))
}

// takeLine adds the entry of a line to those that wait.
func (s *source) takeLine(line []byte) error {
	if len(line) > MaxLineBytes {
		return ErrLong
	}
	if s.format == JSONL && IsTraceHeader(line) {
		h, err := ParseTraceHeader(line)
		if err == nil {
			s.stats.Sample = max(s.stats.Sample, h.Sample)
			s.stats.Dropped += h.Dropped
		}
		return err
	}
	if len(line) == 0 || s.parser.readComment(line) {
		return nil
	}
	if err := s.parser.parse(&s.row, line); err != nil {
		if s.stats.Bad < firstBad {
			err = otherFormat(line, s.format, s.options, err)
		}
		return err
	}
	e := s.newEntry()
	e.File = s.name
	e.Line = s.line
	s.stats.Entries++
	s.entries++
	if e.At < year2000 {
		s.stats.Before2000++
	}
	if s.row.isZoneless && s.options.Zone == nil {
		s.stats.Zoneless++
	}
	s.newest = max(s.newest, e.At)
	s.stats.Disorder = max(s.stats.Disorder, time.Duration(s.newest-e.At)*time.Microsecond)
	s.room -= e.size()
	s.waiting.push(e)
	return nil
}

// year2000 is the instant of 2000-01-01 in UTC.
const year2000 = 946_684_800 * micro

// NextLine returns the next line with its ending, valid until the next call. A line without
// an ending is the last. Of a line that does not fit in the buffer it returns the end, and ErrLong.
func NextLine(lines *bufio.Reader) ([]byte, error) {
	b, err := lines.ReadSlice('\n')
	if err == io.EOF && len(b) > 0 {
		return b, nil
	}
	if err != bufio.ErrBufferFull {
		return b, err
	}
	for err == bufio.ErrBufferFull {
		b, err = lines.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b, ErrLong
}

// checkFormat returns the error of a file with a detected format of which less than half was read. It
// probably has another format.
func (s *source) checkFormat() error {
	if s.options.Format != "" || s.format == JSONL || s.entries >= s.bad || s.entries == 0 {
		return nil
	}
	return fmt.Errorf("%s: only %d of %d lines have the detected format %s; "+
		"if it is right, name it with --format %s",
		s.name, s.entries, s.entries+s.bad, s.format, s.format)
}

// close closes the file.
func (s *source) close() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
	s.closers = nil
	s.lines = nil
}
