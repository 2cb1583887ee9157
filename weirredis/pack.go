package weirredis

import (
	"encoding/binary"

	"github.com/weirlimit/weir"
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

// kindOf returns the kind of a under the plan's mode. Zero units are a peek (R4).
func kindOf(p *weir.Plan, a *weir.Request) byte {
	kind := byte(kindPeek)
	if a.N > 0 {
		switch a.Op {
		case weir.OpAttempt:
			kind = kindAttempt
		case weir.OpRecord:
			kind = kindRecord
		}
	}
	return kind + byte(p.Mode())
}

// moment is the instant of a call: that of the caller, or of the server's clock.
type moment struct {
	micros int64 // since 1970, if given
	given  bool
}

// momentOf returns the instant of a request.
func momentOf(a *weir.Request) (at moment) {
	at.micros, at.given = a.Instant()
	return at
}

// momentNow returns the instant now of a weir.Engine's method, which may be weir.Now.
func momentNow(now int64) moment {
	if now == weir.Now {
		return moment{}
	}
	return moment{now, true}
}

// packed returns the number that a script receives.
func (at moment) packed() int64 {
	if !at.given {
		return serverClock
	}
	return at.micros
}

// packOne packs a request under one limit. A limit's cost replaces the units.
func packOne(kind byte, a *weir.Request, l *weir.PlanLimit) string {
	var room [48]byte
	b := append(room[:0], kind)
	b = append7(b, l.Units(a.N))
	b = append7(b, momentOf(a).packed())
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
func packBucket(kind byte, a *weir.Request, l *weir.PlanLimit) string {
	var room [80]byte
	b := append7(append(room[:0], kind), momentOf(a).packed())
	n := l.Units(a.N)
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
func appendTime(b []byte, f *weir.Refill, n int64) []byte {
	micros, rest := f.Time(n)
	return append7(append7(b, micros), rest)
}

// packMany packs a request under several limits, or under limits of all kinds. The windows
// of Periods are those around an instant.
func packMany(kind byte, p *weir.Plan, a *weir.Request, around int64) string {
	limits := p.Limits()
	var room [256]byte
	b := append(room[:0], kind, 1)
	b = append7(b, a.N)
	b = append7(b, momentOf(a).packed())
	b = append(b, byte(len(limits)), 0)
	if a.States != nil {
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

// packRefund packs a refund of n units of the entry at instant at. The windows of Periods
// are those around another instant.
func packRefund(p *weir.Plan, at, n int64, now moment, around int64) string {
	limits := p.Limits()
	var room [256]byte
	b := append(room[:0], byte(p.Mode()), byte(len(limits)))
	b = append7(b, now.packed())
	b = append7(b, at) // weir.Oldest becomes a number above 2^53
	b = append7(b, n)
	for i := range limits {
		b = append7(appendLimit(b, &limits[i]), refunded(&limits[i], n))
		b = appendKind(b, &limits[i], around)
	}
	return string(b)
}

// refunded returns the most units that a refund of n takes of the limit. A cost is not
// refunded, because the attempt was made (R10), but a hold ends whole (R17).
func refunded(l *weir.PlanLimit, n int64) int64 {
	if l.Cost > 0 && l.Kind != weir.Concurrency {
		return 0
	}
	return l.Units(n)
}

// packCount packs a count of the last microseconds. The windows of a Period are those around
// an instant.
func packCount(l *weir.PlanLimit, last int64, now moment, around int64) string {
	var room [56]byte
	b := append6(append7(room[:0], now.packed()), l.Span(last))
	return string(appendKind(append6(append6(b, l.Window), cell(l)), l, around))
}

// appendLimit appends the numbers of a limit.
func appendLimit(b []byte, l *weir.PlanLimit) []byte {
	b = append7(b, l.Capacity)
	b = append6(b, l.Window)
	b = append6(b, l.MinInterval)
	return append6(b, cell(l))
}

// appendKind appends the further numbers of a Bucket, or of a Period: the edges of the
// window around an instant, of the one before it and of the one behind it.
func appendKind(b []byte, l *weir.PlanLimit, around int64) []byte {
	switch {
	case l.Kind == weir.Bucket:
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
func cell(l *weir.PlanLimit) int64 {
	switch l.Kind {
	case weir.Bucket:
		return bucketCell
	case weir.Fixed:
		if l.Period != nil {
			return periodCell
		}
		return calendarCell
	case weir.FixedFromFirst:
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
