package replay

import (
	"bufio"
	"bytes"
	"context"
	"io"
)

const (
	readBytes  = 256 << 10 // more than a line of MaxLineBytes and its ending
	writeBytes = 64 << 10
)

// lineReader splits a trace into lines.
type lineReader struct{ r *bufio.Reader }

// newLineReader reads lines from in. Before it reads on, and so may have to
// wait, it writes out what w holds: whoever feeds a pipe line by line gets his
// answers, and ctx can end a replay between two reads.
func newLineReader(ctx context.Context, in io.Reader, w *answers) *lineReader {
	return &lineReader{bufio.NewReaderSize(&politeReader{ctx, in, w}, readBytes)}
}

// next returns the next line without its ending, valid until the next call;
// tooLong and no line for one of more than MaxLineBytes, which has then been
// passed over; and io.EOF behind the last.
func (l *lineReader) next() ([]byte, error) {
	b, err := l.r.ReadSlice('\n')
	if err == io.EOF && len(b) > 0 {
		err = nil // the last line may lack its ending
	}
	if err == bufio.ErrBufferFull {
		return nil, l.skip()
	}
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	if len(b) > MaxLineBytes {
		return nil, tooLong
	}
	return b, nil
}

// skip passes over the rest of a line and returns tooLong.
func (l *lineReader) skip() error {
	for {
		switch _, err := l.r.ReadSlice('\n'); err {
		case nil, io.EOF:
			return tooLong
		case bufio.ErrBufferFull:
		default:
			return err
		}
	}
}

// blank reports whether a line holds white space only.
func blank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

type politeReader struct {
	ctx context.Context
	in  io.Reader
	out *answers
}

func (p *politeReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.out.flush(); err != nil {
		return 0, err
	}
	return p.in.Read(b)
}

// answers gathers lines of answer. The field is appended to directly, which a
// bufio.Writer would not allow without copying each line once more.
type answers struct {
	to  io.Writer
	buf []byte
}

func (a *answers) flushIfFull() error {
	if len(a.buf) < writeBytes {
		return nil
	}
	return a.flush()
}

func (a *answers) flush() error {
	if len(a.buf) == 0 {
		return nil
	}
	_, err := a.to.Write(a.buf)
	a.buf = a.buf[:0]
	return err
}
