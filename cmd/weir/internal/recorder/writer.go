package recorder

import (
	"cmp"
	"encoding/base64"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
)

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
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
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
	calls := w.take(w.spare)
	newest := w.newest
	for i := range calls {
		newest = max(newest, calls[i].at)
	}
	w.pending = append(w.pending, calls...)
	clear(calls)
	w.spare = calls[:0]
	slices.SortStableFunc(w.pending, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank))
	})
	n := len(w.pending)
	if !all {
		n, _ = slices.BinarySearchFunc(w.pending, w.newest+1, func(c call, at int64) int { return cmp.Compare(c.at, at) })
	}
	w.write(w.pending[:n])
	w.pending = slices.Delete(w.pending, 0, n)
	w.newest = newest
}

// write writes calls, after a header with the number of the missing ones.
func (w *writer) write(calls []call) {
	missing := w.Recorder.dropped.Load() + w.failed.Load() - w.dropped
	if len(calls) == 0 && missing == 0 {
		return
	}
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
	lines := w.files.written()
	w.Recorder.written.Add(lines)
	w.failed.Add(int64(len(calls)) - lines)
	if err != nil {
		w.logError(err)
		return
	}
	w.dropped += missing
}

// appendLine appends the line of a call.
func (w *writer) appendLine(b []byte, c *call) []byte {
	w.line = replay.Line{At: c.at, Policy: c.of.name, Key: w.line.Key[:0], N: c.n, Op: c.op, GrantedAt: c.granted}
	rest := c.data[:c.key]
	for i, name := range c.of.dimensions {
		var value []byte
		value, rest, _ = keyenc.Next(rest)
		text := string(value)
		if !c.of.public[i][text] && !(w.config.Plain && utf8.Valid(value)) { // a trace is UTF-8
			text = w.hash(name, value)
		}
		w.line.Key = append(w.line.Key, enforce.Pair{Name: name, Value: text})
	}
	if c.plan != "" {
		w.line.Key = append(w.line.Key, enforce.Pair{Name: c.of.planBy, Value: c.plan})
	}
	if id := c.data[c.key:]; len(id) > 0 {
		w.line.ID = w.hash("", id)
	}
	return w.line.AppendJSON(b)
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
