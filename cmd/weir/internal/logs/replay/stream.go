package replay

import (
	"bufio"
	"bytes"
	"context"
	"io"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
)

const (
	readBytes  = 256 << 10 // more than a line of MaxLineBytes and its ending
	writeBytes = 64 << 10
)

// lineReader reads the lines of a trace.
type lineReader struct{ r *bufio.Reader }

// newLineReader returns a reader of the lines of in. Before each read of in, which may
// block, it flushes w and checks ctx: a program that writes a pipe line by line gets
// each answer before its next line.
func newLineReader(ctx context.Context, in io.Reader, w *bufio.Writer) *lineReader {
	return &lineReader{bufio.NewReaderSize(&flushingReader{ctx, in, w}, readBytes)}
}

// next returns the next line without its ending, valid until the next call. It skips a
// line of more than MaxLineBytes and returns errTooLong. After the last line it
// returns io.EOF.
func (l *lineReader) next() ([]byte, error) {
	b, err := accesslog.NextLine(l.r)
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	if err == accesslog.ErrLong || err == nil && len(b) > MaxLineBytes {
		return nil, errTooLong
	}
	return b, err
}

// blank reports whether a line has only white space.
func blank(b []byte) bool { return len(bytes.Trim(b, " \t\r")) == 0 }

// flushingReader flushes out before each read of in.
type flushingReader struct {
	ctx context.Context
	in  io.Reader
	out *bufio.Writer
}

func (p *flushingReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.out.Flush(); err != nil {
		return 0, err
	}
	return p.in.Read(b)
}
