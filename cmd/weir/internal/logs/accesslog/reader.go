package accesslog

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"
)

// DefaultReorder is the window of Options.Reorder that is 0.
const DefaultReorder = 5 * time.Second

// Options change the reading of logs. The zero Options detect the format of each file.
type Options struct {
	Format  Format            // of all files; "" and Auto detect it for each
	Fields  map[string]string // from remote_addr, method, … or time to the log's own name; a dotted path in JSON
	Reorder time.Duration     // lines are sorted within this window; 0 = DefaultReorder, less = they are not sorted
	Stdin   io.Reader         // the file named -; nil = os.Stdin
	Traces  bool              // traces of package replay are read too: their attempts, with fields such as policy and key.ip, and their units as bytes
}

// Stats counts the lines read so far.
type Stats struct {
	Lines      int64     // lines that are neither blank nor comments: Entries + Bad
	Entries    int64     // readable lines, those still in the window of Reorder included
	Bad        int64     // lines that are not readable
	First      []BadLine // the first ten of them
	Late       int64     // entries earlier than one that was returned before
	Before2000 int64     // entries with an instant before 2000: probably a wrong clock or unit
	Sample     int64     // of recorded traces: they have one of Sample keys, each with all of its calls; 0 or 1 = all keys
	Dropped    int64     // of recorded traces: calls of these keys that are missing
}

const firstBad = 10

// BadLine is a line that is not readable.
type BadLine struct {
	File   string // as given to Open
	Line   int64  // counted from 1
	Reason string
}

// Error returns file:line: reason.
func (b BadLine) Error() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

// File is one log and its format.
type File struct {
	Name   string // as given to Open
	Format Format // "" for a file without lines
}

// Reader reads files as one sequence. It is used by one goroutine at a time.
type Reader struct {
	options  Options
	window   int64 // microseconds
	files    []File
	sources  []*source // by their first entries or, of closed files, the instant before which none comes
	returned bool      // the first entry of the first source was returned
	free     []*Entry
	last     int64 // the greatest instant returned
	stats    Stats
}

// Open opens logs. The name - is standard input. The error names the first file that
// cannot be opened or has no known format; it wraps the *os.PathError.
//
// A file stays closed until the entries reach its first instant, so that many rotated
// files need no more memory than those of one time.
func Open(names []string, o Options) (*Reader, error) {
	if o.Format == Auto {
		o.Format = ""
	}
	r := &Reader{options: o, window: window(o.Reorder)}
	for i, name := range names {
		s, err := r.open(name, i)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.files = append(r.files, File{name, s.format})
		if s.format == "" {
			s.close()
			continue
		}
		r.insert(s)
	}
	return r, nil
}

// window returns a window in microseconds.
func window(d time.Duration) int64 {
	if d == 0 {
		d = DefaultReorder
	}
	return max(0, d.Microseconds())
}

// Files returns the files in the order of Open, with their formats.
func (r *Reader) Files() []File { return slices.Clone(r.files) }

// Stats returns the counts so far.
func (r *Reader) Stats() Stats {
	s := r.stats
	s.First = slices.Clone(s.First)
	return s
}

// Entries returns the entries up to the end or the first error.
func (r *Reader) Entries() iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		for {
			e, err := r.Next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Next returns the next entry, valid until the following call, or io.EOF. Entries with
// equal instants keep the order of files and lines. Other errors are those of reading a
// file. Compressed data that end early are a bad line.
func (r *Reader) Next() (*Entry, error) {
	if r.returned {
		s := r.sources[0]
		r.returned = false
		r.free = append(r.free, s.pop())
		if err := r.fillFirst(); err != nil {
			return nil, err
		}
	}
	for len(r.sources) > 0 && r.sources[0].head() == nil {
		if err := r.sources[0].reopen(r); err != nil {
			return nil, err
		}
		if err := r.fillFirst(); err != nil {
			return nil, err
		}
	}
	if len(r.sources) == 0 {
		return nil, io.EOF
	}
	r.returned = true
	e := r.sources[0].head()
	if e.At < r.last {
		r.stats.Late++
	}
	r.last = max(r.last, e.At)
	return e, nil
}

// fillFirst reads lines of the first source, and puts it at its new place. It closes one
// without entries.
func (r *Reader) fillFirst() error {
	s := r.sources[0]
	if err := s.fill(r); err != nil {
		return err
	}
	r.sources = slices.Delete(r.sources, 0, 1)
	if s.head() == nil {
		s.close()
	} else {
		r.insert(s)
	}
	return nil
}

// insert puts a source at its place.
func (r *Reader) insert(s *source) {
	i, _ := slices.BinarySearchFunc(r.sources, s, (*source).compare)
	r.sources = slices.Insert(r.sources, i, s)
}

// entry returns an unused entry.
func (r *Reader) entry() *Entry {
	if n := len(r.free); n > 0 {
		e := r.free[n-1]
		r.free = r.free[:n-1]
		return e
	}
	return &Entry{}
}

// bad counts a line that is not readable.
func (r *Reader) bad(file string, line int64, err error) {
	r.stats.Lines++
	r.stats.Bad++
	if len(r.stats.First) < firstBad {
		r.stats.First = append(r.stats.First, BadLine{file, line, err.Error()})
	}
}

// Close closes all files.
func (r *Reader) Close() error {
	var errs []error
	for _, s := range r.sources {
		errs = append(errs, s.close())
	}
	r.sources, r.returned = nil, false
	return errors.Join(errs...)
}

// stdin returns the file named -.
func (o *Options) stdin() io.Reader {
	if o.Stdin != nil {
		return o.Stdin
	}
	return os.Stdin
}
