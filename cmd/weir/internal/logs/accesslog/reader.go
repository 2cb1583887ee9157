package accesslog

import (
	"container/heap"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
)

// DefaultReorder is the usual window of Options.Reorder.
const DefaultReorder = 5 * time.Second

// Options change the reading of logs. The zero Options detect the format of each file.
type Options struct {
	Format  Format        // for all files; "" and Auto detect it for each
	Reorder time.Duration // lines are sorted within this window; 0 = they are not sorted
	Stdin   io.Reader     // the file named -

	// Fields map remote_addr, method, … or time to the log's own name; a dotted path in JSON.
	Fields map[string]string

	// Zone is that of times without a zone; nil = they are errors, and UTC in the log of HAProxy.
	Zone *time.Location

	// WholeTraces permits traces of package replay for [Reader.Trace] only: all files or none are
	// traces. A first file of unknown JSON is one too. Without it the attempts of a trace are
	// entries, with fields such as policy and key.ip, and their units as bytes.
	WholeTraces bool
}

// Stats counts the lines read so far.
type Stats struct {
	Entries int64     // readable lines, those still in the window of Reorder included
	Bad     int64     // lines that are not readable
	First   []BadLine // the first ten of Bad
	Late    int64     // entries earlier than one that was returned before
	Zeros   int64     // bytes of holes of zeros before lines, which were skipped

	// Crowded reports that more lines were within Options.Reorder than can wait, so that it sorted
	// only some of them.
	Crowded bool

	// Disorder is an Options.Reorder that sorts the lines read so far, in whole microseconds.
	Disorder time.Duration

	// Zoneless counts entries with a time without a zone, which was read as UTC because
	// Options.Zone is nil.
	Zoneless int64

	// Before2000 counts entries with an instant before 2000: probably a wrong clock or unit.
	Before2000 int64

	// A recorded trace has one of Sample keys, each with all of its calls; 0 or 1 = all keys.
	// Dropped calls of these keys are missing.
	Sample  int64
	Dropped int64
}

// Lines returns the number of lines that are neither blank nor comments.
func (s *Stats) Lines() int64 { return s.Entries + s.Bad }

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

	// CopyOf is the first file with the same first lines, decompressed. It is probably the same log,
	// and its requests count twice. "" = there is none.
	CopyOf string
}

// Reader reads files as one sequence. It is used by one goroutine at a time.
type Reader struct {
	options Options
	window  int64 // microseconds
	files   []File
	heads   map[string]string // the name of a file by the first bytes of its text, to notice copies

	// sources are ordered by their first entries. A file that was not read yet has the place of the
	// least instant that its sample permits.
	sources timeline[*source]

	fields  []Field  // the fields that the caller of Entries reads
	row     row      // the line read last
	names   []string // the names of the fields of the first entry, for messages
	current *Entry   // the entry returned last, which the next call reuses
	free    []*Entry // unused entries, so that few are allocated
	room    int64    // bytes left for entries that wait to be sorted
	last    int64    // the greatest instant returned
	stats   Stats
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
	r := &Reader{
		options: o,
		window:  o.Reorder.Microseconds(),
		sources: timeline[*source]{compare: (*source).compare},
		room:    maxHeld,
		heads:   map[string]string{},
	}
	for i, name := range names {
		s, err := r.open(name, i)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.files = append(r.files, File{Name: name, Format: s.format, CopyOf: s.copyOf})
		if s.format == "" {
			s.close()
			continue
		}
		heap.Push(&r.sources, s)
	}
	r.heads = nil
	return r, nil
}

// Files returns the files in the order of Open, with their formats.
func (r *Reader) Files() []File { return slices.Clone(r.files) }

// Stats returns the counts so far.
func (r *Reader) Stats() Stats { return r.stats }

// Names returns the names of the fields that have a value in the first line read, those of
// every format first, and members of objects with a dot: key.ip. It is for messages.
func (r *Reader) Names() []string { return r.names }

// Trace returns the text of traces, which take the place of the entries. Their order is that
// of their first calls, so that trace.jsonl* reads a trace that weir serve has rotated.
func (r *Reader) Trace() io.Reader {
	slices.SortFunc(r.sources.all, (*source).compare)
	var all []io.Reader
	for _, s := range r.sources.all {
		all = append(all, s, strings.NewReader("\n")) // the last line of a file may be cut off
	}
	return io.MultiReader(all...)
}

// Entries returns the entries with the values of fields, up to the end or the first error. It is
// called once.
// Each is valid until the next one. Entries with equal instants keep the order of files and
// lines. An error is that of reading a file, or of lines that wait to be sorted and take more
// than 128 MiB. Compressed data that end early are a bad line.
func (r *Reader) Entries(fields ...Field) iter.Seq2[*Entry, error] {
	r.fields = fields
	return func(yield func(*Entry, error) bool) {
		for {
			e, err := r.next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// next returns the next entry, valid until the following call, or io.EOF.
func (r *Reader) next() (*Entry, error) {
	if e := r.current; e != nil {
		r.current = nil
		r.room += e.size()
		if cap(e.values) > maxReused {
			e.values = nil
		}
		r.free = append(r.free, e)
	}
	s, err := r.earliest()
	if err != nil {
		return nil, err
	}
	e := s.waiting.pop()
	r.current = e
	if e.At < r.last {
		r.stats.Late++
	}
	r.last = max(r.last, e.At)
	return e, nil
}

// earliest returns the source of the next entry, or io.EOF. It reads lines of the first source
// until that one stays the first, and closes sources without further entries.
func (r *Reader) earliest() (*source, error) {
	for r.sources.Len() > 0 {
		s := r.sources.first()
		if err := s.readAhead(); err != nil {
			return nil, err
		}
		if s.waiting.Len() == 0 {
			heap.Pop(&r.sources)
			s.close()
			if err := s.checkFormat(); err != nil {
				return nil, err
			}
			continue
		}
		if heap.Fix(&r.sources, 0); r.sources.first() == s {
			return s, nil
		}
	}
	return nil, io.EOF
}

// newEntry returns an entry with a copy of the fields of the line read last.
func (r *Reader) newEntry() (e *Entry) {
	if r.stats.Entries == 0 {
		r.names = r.row.fieldNames()
	}
	if n := len(r.free); n > 0 {
		e = r.free[n-1]
		r.free = r.free[:n-1]
	} else {
		e = &Entry{}
	}
	e.At = r.row.instant
	e.fields = r.fields
	e.values = e.values[:0]
	e.ends = e.ends[:0]
	for _, read := range r.row.schema.readersOf(r.fields) {
		e.values = append(e.values, read(&r.row)...)
		e.ends = append(e.ends, uint32(len(e.values)))
	}
	return e
}

// Close closes all files.
func (r *Reader) Close() {
	for _, s := range r.sources.all {
		s.close()
	}
	r.sources.all, r.current = nil, nil
}

// timeline is a heap: it returns elements in the order of compare. The steps for an element grow with
// the logarithm of the number of elements, also for a log that runs backward.
type timeline[T any] struct {
	compare func(a, b T) int
	all     []T // as container/heap orders them
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (t *timeline[T]) Len() int           { return len(t.all) }
func (t *timeline[T]) Less(i, j int) bool { return t.compare(t.all[i], t.all[j]) < 0 }
func (t *timeline[T]) Swap(i, j int)      { t.all[i], t.all[j] = t.all[j], t.all[i] }
func (t *timeline[T]) Push(v any)         { t.all = append(t.all, v.(T)) }

func (t *timeline[T]) Pop() any {
	last := len(t.all) - 1
	v := t.all[last]
	clear(t.all[last:])
	t.all = t.all[:last]
	return v
}

// first returns the first element; the zero T if there is none.
func (t *timeline[T]) first() (v T) {
	if len(t.all) > 0 {
		v = t.all[0]
	}
	return v
}
