package weirredis

import (
	"encoding/binary"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// Arguments of scripts are packed into one string, because unpacking it costs the server
// as much as one further argument. The headers of lua/generated describe the layouts.

// plainBytes is the size of a request under one limit whose interval, cells and further
// callers are left out.
const plainBytes = 1 + 7 + 7 + 7 + 6

// serverClock stands for the server's clock in place of an instant. It is above every
// instant.
const serverClock = 1<<56 - 1

// Kinds of requests. The mode (0 to 2) is added to the first three.
const (
	kindAttempt = 0
	kindPeek    = 3
	kindRecord  = 6
	kindRefund  = 9 // of a stored operation; no request is of this kind
)

// kindOf returns the kind of a call in the mode of its rules. Zero units are a peek (R4).
func kindOf(c *engine.Call) byte {
	kind := byte(kindPeek)
	if c.N > 0 {
		switch c.Op {
		case engine.Attempt:
			kind = kindAttempt
		case engine.Record:
			kind = kindRecord
		}
	}
	return kind + byte(c.Rules.Mode)
}

// instant returns the number that a script receives as the instant of a call.
func instant(c *engine.Call) int64 {
	if !c.Given {
		return serverClock
	}
	return c.At
}

// packOne packs a request under one limit. A limit's cost replaces the units.
func packOne(kind byte, c *engine.Call, l *engine.Limit) string {
	var room [48]byte
	b := append(room[:0], kind)
	b = append7(b, l.Units(c.N))
	b = append7(b, instant(c))
	if l.MinInterval == 0 && cell(l) == 0 {
		return string(append6(append7(b, l.Max), l.Window))
	}
	return string(append(appendLimit(b, l), 1))
}

// oneTimes is arg of packOne for so many callers, 1 to 255.
func oneTimes(arg string, times int) string {
	if times == 1 {
		return arg
	}
	if len(arg) == plainBytes {
		arg += "\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00" + "\x00" // gap, cell, times
	}
	return arg[:len(arg)-1] + string([]byte{byte(times)})
}

// packBucket packs an attempt or a peek under one Bucket, of at most its capacity.
func packBucket(kind byte, c *engine.Call, l *engine.Limit) string {
	var room [80]byte
	b := append7(append(room[:0], kind), instant(c))
	n := l.Units(c.N)
	if f := &l.Refill; f.Per == 1 {
		b = append7(append7(b, n*f.Micros), (l.Capacity-n)*f.Micros)
		return string(append(append6(append7(b, l.Capacity*f.Micros), f.Micros), 1))
	}
	b = appendTime(b, &l.Refill, n)
	b = appendTime(b, &l.Refill, l.Capacity-n)
	full, _ := l.Refill.Time(l.Capacity)
	b = append6(append7(b, full), l.Refill.Micros)
	return string(append(append7(append7(b, l.Refill.Rest), l.Refill.Per), 1))
}

// appendTime appends the time in which n units flow in.
func appendTime(b []byte, f *window.Refill, n int64) []byte {
	micros, rest := f.Time(n)
	return append7(append7(b, micros), rest)
}

// packMany packs a request under several limits, or under limits of all kinds. The windows
// of Periods are those around an instant.
func packMany(kind byte, c *engine.Call, around int64) string {
	limits := c.Rules.Limits
	var room [256]byte
	b := append(room[:0], kind, 1)
	b = append7(b, c.N)
	b = append7(b, instant(c))
	b = append(b, byte(len(limits)), 0)
	if c.States != nil {
		b[len(b)-1] = 1
	}
	for i := range limits {
		b = append7(appendLimit(b, &limits[i]), limits[i].Cost)
		b = appendKind(b, &limits[i], around)
	}
	return string(b)
}

// manyTimes is arg of packMany for so many callers, 1 to 255.
func manyTimes(arg string, times int) string {
	return arg[:1] + string([]byte{byte(times)}) + arg[2:]
}

// packRefund packs a refund. The windows of Periods are those around an instant.
func packRefund(c *engine.Call, around int64) string {
	limits := c.Rules.Limits
	var room [256]byte
	b := append(room[:0], byte(c.Rules.Mode), byte(len(limits)))
	b = append7(b, instant(c))
	b = append7(b, c.From) // engine.Oldest becomes a number above 2^53
	b = append7(b, c.N)
	for i := range limits {
		b = append7(appendLimit(b, &limits[i]), refunded(&limits[i], c.N))
		b = appendKind(b, &limits[i], around)
	}
	return string(b)
}

// refunded returns the most units that a refund of n takes of the limit. A cost is not
// refunded, because the attempt was made (R10), but a hold ends whole (R17).
func refunded(l *engine.Limit, n int64) int64 {
	if l.Cost > 0 && l.Kind != engine.Concurrency {
		return 0
	}
	return l.Units(n)
}

// packCount packs a count. The windows of a Period are those around
// an instant.
func packCount(c *engine.Call, around int64) string {
	l, span := &c.Rules.Limits[c.Limit], c.From
	if l.Kind == engine.Fixed || l.Kind == engine.FixedFromFirst {
		span = l.Window // only the beginning of the window is stored (R11)
	}
	var room [56]byte
	b := append6(append7(room[:0], instant(c)), span)
	return string(appendKind(append6(append6(b, l.Window), cell(l)), l, around))
}

// appendLimit appends the numbers of a limit.
func appendLimit(b []byte, l *engine.Limit) []byte {
	b = append7(b, l.Capacity)
	b = append6(b, l.Window)
	b = append6(b, l.MinInterval)
	return append6(b, cell(l))
}

// appendKind appends the further numbers of a Bucket, or of a Period: the edges of the
// window around an instant, of the one before it and of the one behind it.
func appendKind(b []byte, l *engine.Limit, around int64) []byte {
	switch {
	case l.Kind == engine.Bucket:
		b = append6(b, l.Refill.Micros)
		b = append7(b, l.Refill.Rest)
		b = append7(b, l.Refill.Per)
		b = append7(b, l.Refill.MaxExact)
	case l.Period != nil:
		start, end := l.Period.WindowAt(around)
		before, _ := l.Period.WindowAt(max(start-1, 0))
		_, behind := l.Period.WindowAt(end)
		for _, edge := range [...]int64{min(before, start), start, end, behind} {
			b = append7(b, max(edge, 0)) // no instant is before 1970
		}
	}
	return b
}

// Markers in place of the width of a cell, above every width: lua/history.lua.
const (
	calendarCell = 1<<48 - 1
	firstHitCell = 1<<48 - 2
	periodCell   = 1<<48 - 3
	bucketCell   = 1<<48 - 4
)

// cell returns the width of a cell of the limit, or the marker of another kind.
func cell(l *engine.Limit) int64 {
	switch l.Kind {
	case engine.Bucket:
		return bucketCell
	case engine.Fixed:
		if l.Period != nil {
			return periodCell
		}
		return calendarCell
	case engine.FixedFromFirst:
		return firstHitCell
	}
	return l.Cell
}

func append7(b []byte, v int64) []byte {
	return append6(append(b, byte(v>>48)), v)
}

func append6(b []byte, v int64) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(v>>32))
	return binary.BigEndian.AppendUint32(b, uint32(v))
}
