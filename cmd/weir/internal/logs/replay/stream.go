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

// nextLine returns the next line without its ending, valid until the next call. It skips a
// line of more than MaxLineBytes and returns errTooLong. After the last line it returns
// io.EOF.
func nextLine(lines *bufio.Reader) ([]byte, error) {
	b, err := accesslog.NextLine(lines)
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	if err == accesslog.ErrLong || err == nil && len(b) > MaxLineBytes {
		return nil, errTooLong
	}
	return b, err
}

// blank reports whether a line has only white space.
func blank(b []byte) bool { return len(bytes.Trim(b, " \t\r")) == 0 }

// flushingReader flushes out and checks ctx before each read of in, which may block: a program
// that writes a pipe line by line gets each answer before its next line.
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
