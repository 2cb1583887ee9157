package weirdisk

import (
	"encoding/binary"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// The entries of a segment are changes of histories. An instant is the difference to the one
// before it in the segment, at first to that of the header. docs/disk-format.md has the bytes.

// The kinds of entries, in the low bits of their first byte.
const (
	entryLimit     = 0 // number, name, keep: names the histories of a limit in this segment
	entryAppend    = 1 // a memory.Change, as the next four
	entryRefund    = 2
	entryReplace   = 3
	entryRemove    = 4
	entryOperation = 5

	kindBits    = 0x0f
	flagVirtual = 0x10
	flagSame    = 0x20 // the span of an append, or the rate of a bucket, is that of the limit's change before
	flagCapped  = 0x40 // an append with a cap, which follows
	flagBucket  = 0x40 // a replace by a bucket
)

// encoder appends the entries of one segment. Instants are differences to the one before.
type encoder struct {
	previous int64
	limits   []encodedLimit // by their numbers in the memory engine
}

// encodedLimit is a limit in the segment.
type encodedLimit struct {
	defined bool
	keep    int64 // the longest so far
	rule
}

// rule is the numbers of a limit that seldom change: the span At - Cutoff of an append, or
// the rate of a bucket.
type rule struct{ span, max, window int64 }

// begin begins another segment.
func (e *encoder) begin(base int64) {
	for i := range e.limits {
		e.limits[i] = encodedLimit{keep: e.limits[i].keep}
	}
	e.previous = base
}

func (e *encoder) instant(b []byte, at int64) []byte {
	b = binary.AppendVarint(b, at-e.previous)
	e.previous = at
	return b
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// limit returns the limit of a change. It defines one that is new in the segment, or whose
// histories are kept for longer.
func (e *encoder) limit(b []byte, c *memory.Change) ([]byte, *encodedLimit) {
	for int(c.Limit) >= len(e.limits) {
		e.limits = append(e.limits, encodedLimit{})
	}
	l := &e.limits[c.Limit]
	if l.defined && l.keep >= c.Keep {
		return b, l
	}
	*l = encodedLimit{defined: true, keep: max(l.keep, c.Keep)}
	b = binary.AppendUvarint(append(b, entryLimit), uint64(c.Limit))
	b = appendString(b, c.Name)
	return binary.AppendUvarint(b, uint64(l.keep)), l
}

// changes appends changes. They stand in one batch, so a restart finds all of them or none.
func (e *encoder) changes(b []byte, changes []memory.Change) []byte {
	for i := range changes {
		b = e.change(b, &changes[i])
	}
	return b
}

// change appends a change.
func (e *encoder) change(b []byte, c *memory.Change) []byte {
	if c.Kind == memory.Remember {
		return e.operation(b, c)
	}
	b, l := e.limit(b, c)
	if c.Kind == memory.Retain {
		return b
	}
	first := entryAppend + byte(c.Kind) | flagIf(c.Virtual, flagVirtual)
	now := rule{max: c.Max, window: c.Window}
	switch c.Kind {
	case memory.Append:
		now.span = c.At - c.Cutoff
		first |= flagIf(c.Capped, flagCapped) | flagIf(now == l.rule, flagSame)
	case memory.Replace:
		first |= flagIf(c.Max > 0, flagBucket) | flagIf(now == l.rule, flagSame)
	}
	b = binary.AppendUvarint(append(b, first), uint64(c.Limit))
	b = e.instant(appendString(b, c.Key), c.At)
	switch {
	case c.Kind == memory.Remove:
		return b
	case c.Kind == memory.Refund:
		b = binary.AppendUvarint(binary.AppendVarint(b, c.End-c.At), uint64(c.Units))
		if c.End == engine.Oldest {
			b = binary.AppendVarint(b, c.At-c.Cutoff)
		}
		return b
	case c.Kind == memory.Append:
		b = binary.AppendVarint(b, c.End-c.At)
		if now != l.rule {
			b = binary.AppendVarint(b, now.span)
		}
		if c.Capped {
			b = binary.AppendUvarint(b, uint64(c.Cap))
		}
		b = binary.AppendUvarint(b, uint64(c.Units)) // last, so that no append ends in a zero
	case c.Max > 0:
		if now != l.rule {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.Max)), uint64(c.Window))
		}
		b = binary.AppendVarint(b, c.Full-c.At)
		b = binary.AppendVarint(b, c.Part)
		b = binary.AppendVarint(b, c.Front-c.At)
	default:
		return appendEntries(b, c.Entries, c.At)
	}
	l.rule = now
	return b
}

// flagIf returns a flag if it is set.
func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// appendResult appends the answer for a repeated call, without its instant.
func appendResult(b []byte, d *engine.Result) []byte {
	allowed := byte(0)
	if d.Allowed {
		allowed = 1
	}
	b = append(b, allowed)
	b = binary.AppendVarint(b, d.Granted)
	b = binary.AppendVarint(b, d.Remaining)
	b = binary.AppendVarint(b, int64(d.RetryAfter))
	b = binary.AppendVarint(b, int64(d.ResetAfter))
	return appendString(b, d.Limit)
}

// appendEntries appends entries with their ends as differences, the first to end.
func appendEntries(b []byte, entries []memory.Entry, end int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, entry := range entries {
		b = binary.AppendVarint(b, entry.End-end)
		b = binary.AppendUvarint(b, uint64(entry.Units))
		end = entry.End
	}
	return b
}

// operation appends an operation.
func (e *encoder) operation(b []byte, c *memory.Change) []byte {
	o := c.Operation
	b = appendString(append(b, entryOperation|flagIf(c.Virtual, flagVirtual)), o.Name)
	b = e.instant(b, c.At)
	b = append(b, byte(o.Op))
	b = binary.AppendUvarint(b, uint64(o.Asked))
	b = binary.AppendVarint(b, o.From)
	b = binary.AppendVarint(b, o.Until-c.At)
	return appendResult(b, &o.Result)
}
