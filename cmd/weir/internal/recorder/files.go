package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
)

// chunk is the number of bytes that one write has, roughly.
const chunk = 64 << 10

// files are the newest file, which is written, and the older ones. Every file begins with
// the header and ends with a whole line, unless the process was killed.
type files struct {
	path   string
	max    int64 // bytes of a file
	keep   int   // files
	header accesslog.TraceHeader

	f       *os.File // the newest; nil if it could not be opened
	size    int64    // whole lines of f
	buffer  []byte   // lines that are not in f yet
	waiting int64    // calls in buffer
	calls   int64    // in files since the last written
}

// start opens a new file. An existing trace becomes the first older file. The error names
// the file that is in the way, and nothing is changed then.
func (s *files) start() error {
	for i := 1; i < s.keep; i++ {
		if err := checkTrace(s.name(i)); err != nil {
			return err
		}
	}
	return s.open()
}

// name returns the path of a file; 0 is the newest.
func (s *files) name(i int) string {
	if i == 0 {
		return s.path
	}
	return fmt.Sprintf("%s.%d", s.path, i)
}

// checkTrace returns an error if a file exists and is not a trace, or if another process
// writes it. Such a file must not be renamed.
func checkTrace(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; choose another", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return fmt.Errorf("%s is written by another process; choose another file", name)
	}
	start := make([]byte, 64)
	n, err := f.Read(start)
	if info.Size() > 0 && (err != nil || !accesslog.IsTraceHeader(start[:n])) {
		return fmt.Errorf("%s exists and is not a recorded trace, so it is not renamed or overwritten; choose another file", name)
	}
	return nil
}

// open makes room for a new newest file and creates it.
func (s *files) open() error {
	if err := checkTrace(s.path); err != nil {
		return err
	}
	if err := s.shift(); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := lock(f); err != nil {
		f.Close()
		return err
	}
	s.f, s.size = f, 0
	s.buffer, s.waiting = s.header.AppendJSON(s.buffer[:0]), 0
	if err = s.flush(); err != nil {
		s.close()
		os.Remove(s.path)
	}
	return err
}

// shift renames each file to the next older name, up to the first that is free. The oldest
// is overwritten. A trace without calls is removed.
func (s *files) shift() error {
	if info, err := os.Lstat(s.path); err == nil && info.Size() <= int64(len(s.header.AppendJSON(nil))) {
		return os.Remove(s.path)
	}
	last := 0
	for ; last < s.keep-1; last++ {
		if _, err := os.Lstat(s.name(last)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for i := last; i > 0; i-- {
		if err := os.Rename(s.name(i-1), s.name(i)); err != nil {
			return err
		}
	}
	if s.keep == 1 {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// reopen opens a new file if there is none, because the last try failed or the file was
// removed or renamed.
func (s *files) reopen() error {
	if s.f != nil {
		named, err := os.Lstat(s.path)
		if err == nil {
			if mine, err := s.f.Stat(); err == nil && os.SameFile(named, mine) {
				return nil
			}
		}
		s.close()
	}
	return s.open()
}

// add adds a line with a number of calls. It begins another file if the line does not fit.
func (s *files) add(line []byte, calls int64) error {
	if s.size+int64(len(s.buffer)+len(line)) > s.max {
		if err := s.flush(); err != nil {
			return err
		}
		s.close()
		if err := s.open(); err != nil {
			return err
		}
	}
	s.buffer = append(s.buffer, line...)
	s.waiting += calls
	if len(s.buffer) < chunk {
		return nil
	}
	return s.flush()
}

// flush writes the buffer. After an error the file ends where it ended before, with a whole
// line, and the buffer is lost.
func (s *files) flush() error {
	n, err := s.f.Write(s.buffer)
	if err == nil {
		s.size += int64(n)
		s.calls += s.waiting
	} else if info, statErr := s.f.Stat(); statErr == nil && n > 0 {
		s.f.Truncate(info.Size() - int64(n)) // another process may have shortened the file
	}
	s.buffer, s.waiting = s.buffer[:0], 0
	return err
}

// written returns the number of calls that were written since it was last called.
func (s *files) written() int64 {
	n := s.calls
	s.calls = 0
	return n
}

func (s *files) close() {
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
}
