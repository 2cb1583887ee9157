package recorder

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
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
	calls   int64    // in files
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
		return fmt.Errorf("%s exists and is not a recorded trace, "+
			"so it is not renamed or overwritten; choose another file", name)
	}
	return nil
}

// open makes room for a new newest file and creates it. An existing trace becomes the first
// older file. The error names the file that is in the way, and nothing is changed then.
func (s *files) open() error {
	for i := range s.keep {
		if err := checkTrace(s.name(i)); err != nil {
			return err
		}
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
	s.f = f
	s.size = 0
	s.buffer = s.header.AppendJSON(s.buffer[:0])
	s.waiting = 0
	if err = s.flush(); err != nil {
		s.close()
		os.Remove(s.path)
	}
	return err
}

// shift renames each file to the next older name, up to the first that is free. The oldest
// is overwritten. A trace without calls is removed.
func (s *files) shift() error {
	info, err := os.Lstat(s.path)
	switch {
	case err != nil:
		return nil // there is none, as checkTrace has found
	case s.keep == 1 || info.Size() <= int64(len(s.header.AppendJSON(nil))):
		return os.Remove(s.path)
	}
	last := 1
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
	s.buffer = s.buffer[:0]
	s.waiting = 0
	return err
}

func (s *files) close() {
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
}

// writer writes the calls of a Recorder. One goroutine uses it.
type writer struct {
	*Recorder
	files   files
	pending []call // in order; later calls may come before them
	newest  int64  // the newest instant of all periods but the last
	spare   []call
	line    replay.Line
	text    []byte
	sum     []byte
	dropped int64 // calls that the headers count as missing
}

// run writes until Close.
func (w *writer) run() {
	defer close(w.done)
	tick := time.Tick(period)
	for {
		select {
		case <-tick:
			w.flush(false)
		case <-w.wake:
			w.flush(false)
		case <-w.closing:
			w.flush(true)
			w.files.close()
			return
		}
	}
}

// flush writes the calls that are in order for certain: those up to the newest instant of
// the periods before. With all it writes every call.
func (w *writer) flush(all bool) {
	w.mu.Lock()
	calls := w.calls
	w.calls = w.spare[:0]
	w.bytes = 0
	w.mu.Unlock()
	newest := w.newest
	for i := range calls {
		newest = max(newest, calls[i].at)
	}
	w.pending = append(w.pending, calls...)
	clear(calls)
	w.spare = calls[:0]
	slices.SortStableFunc(w.pending, compareCalls)
	n := len(w.pending)
	if !all {
		isBefore := func(c call, at int64) int { return cmp.Compare(c.at, at) }
		n, _ = slices.BinarySearchFunc(w.pending, w.newest+1, isBefore)
	}
	w.write(w.pending[:n])
	w.pending = slices.Delete(w.pending, 0, n)
	w.newest = newest
}

// compareCalls orders calls by their instants, and calls of one instant as they may have been
// decided.
func compareCalls(a, b call) int {
	return cmp.Or(
		cmp.Compare(a.at, b.at),
		cmp.Compare(a.rank, b.rank),
		cmp.Compare(a.start, b.start),
	)
}

// write writes calls, after a header with the number of the missing ones.
func (w *writer) write(calls []call) {
	missing := w.Dropped.Load() + w.Failed.Load() - w.dropped
	if len(calls) == 0 && missing == 0 {
		return
	}
	before := w.files.calls
	err := w.files.reopen()
	if err == nil && missing > 0 {
		header := w.files.header
		header.Dropped = missing
		err = w.files.add(header.AppendJSON(w.text[:0]), 0)
	}
	for i := 0; i < len(calls) && err == nil; i++ {
		w.text = w.appendLine(w.text[:0], &calls[i])
		err = w.files.add(w.text, 1)
	}
	if err == nil {
		err = w.files.flush()
	}
	lines := w.files.calls - before
	w.Written.Add(lines)
	w.Failed.Add(int64(len(calls)) - lines)
	if err != nil {
		w.logError(err)
		return
	}
	w.dropped += missing
}

// appendLine appends the line of a call.
func (w *writer) appendLine(b []byte, c *call) []byte {
	w.line = replay.Line{
		At:        c.at,
		Policy:    c.of.name,
		Key:       w.line.Key[:0],
		N:         c.n,
		Op:        c.op,
		GrantedAt: c.granted,
		Limit:     c.limit,
	}
	rest := c.data[:c.key]
	for i := range c.of.dimensions {
		var value []byte
		value, rest, _ = keyenc.Next(rest)
		if len(value) > 0 { // otherwise the call does not name it
			w.line.Key = append(w.line.Key, w.recordedPair(c.of, i, value))
		}
	}
	if c.plan != "" {
		w.line.Key = append(w.line.Key, enforce.Pair{Name: c.of.planBy, Value: c.plan})
	}
	switch c.op {
	case engine.Attempt:
		w.line.TTL = c.span
		w.line.MaxWait = c.wait
	case engine.Block:
		w.line.For = c.span
	}
	if id := c.data[c.key:]; len(id) > 0 {
		w.line.ID = w.hash("", id)
	}
	return w.line.AppendJSON(b)
}

// recordedPair returns dimension i of a policy with its value as the trace shows it: readable if the
// policy file names it or by Config.Plain, otherwise hashed.
func (w *writer) recordedPair(of *Policy, i int, value []byte) enforce.Pair {
	pair := enforce.Pair{Name: of.dimensions[i], Value: string(value)}
	isPlain := w.config.Plain && utf8.Valid(value) // a trace is UTF-8
	if isPlain || of.public[pair] {
		return pair
	}
	hash := w.hash(pair.Name, value)
	if network := of.rule.Network(i, pair.Value); network.IsValid() {
		hash = clientaddr.Hidden(network, hash)
	}
	pair.Value = hash
	return pair
}

// hash returns the keyed hash of a value of a dimension, as 16 characters: 96 bits, so that
// two of a million values share one with a chance of 10⁻¹⁷. The same values of two
// dimensions have different hashes.
func (w *writer) hash(dimension string, value []byte) string {
	w.mac.Reset()
	w.sum = append(keyenc.Append(w.sum[:0], dimension), value...)
	w.mac.Write(w.sum)
	w.sum = w.mac.Sum(w.sum[:0])
	return base64.RawURLEncoding.EncodeToString(w.sum[:hashBytes])
}
