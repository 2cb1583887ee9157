package weirredis

import (
	"encoding/binary"

	"github.com/weirlimit/weir"
)

// What scripts are asked is one packed string, since each further argument costs
// as much as unpacking it. lua/one.lua and lua/many.lua say what is in it.

// plainBytes is the size of an argument of one.lua without interval, cells and several
// callers.
const plainBytes = 1 + 7 + 7 + 7 + 6

// serverClock, in place of an instant, asks for the server's clock. It is above
// every instant.
const serverClock = 1<<56 - 1

// kinds of a decision, to which the mode is added.
const (
	kindAttempt = 0
	kindPeek    = 3
	kindRecord  = 6
	kindRefund  = 9 // of an operation that is known; no decision is of that kind
)

// kindOf is the kind of the ask under the plan's mode. What asks for nothing is a
// peek (R4).
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

func instant(at int64) int64 {
	if at == weir.Now {
		return serverClock
	}
	return at
}

// packOne is the argument of one.lua for one caller. Of a limit with a cost of its
// own, that is the units.
func packOne(kind byte, a *weir.Request, l *weir.PlanLimit) string {
	var room [48]byte
	b := append(room[:0], kind)
	b = append7(b, l.Units(a.N))
	b = append7(b, instant(a.At))
	if l.MinInterval == 0 && cell(l) == 0 {
		return string(append6(append7(b, l.Max), l.Window))
	}
	return string(append(appendLimit(b, l), 1))
}

// oneTimes is an argument of one.lua for several callers: that of a plain script
// becomes one of a script that is not.
func oneTimes(arg string, times int) string {
	if times == 1 {
		return arg
	}
	if len(arg) == plainBytes {
		arg += "\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00" + "\x00" // gap, cell, times
	}
	return arg[:len(arg)-1] + string([]byte{byte(times)})
}

// packMany is the argument of many.lua for one caller.
func packMany(kind byte, p *weir.Plan, a *weir.Request) string {
	limits := p.Limits()
	var room [256]byte
	b := append(room[:0], kind, 1)
	b = append7(b, a.N)
	b = append7(b, instant(a.At))
	b = append(b, byte(len(limits)), 0)
	if a.States != nil {
		b[len(b)-1] = 1
	}
	for i := range limits {
		b = append7(appendLimit(b, &limits[i]), limits[i].Cost)
	}
	return string(b)
}

// manyTimes is an argument of many.lua for several callers.
func manyTimes(arg string, times int) string {
	return arg[:1] + string([]byte{byte(times)}) + arg[2:]
}

// packRefund is the argument of refund.lua.
func packRefund(p *weir.Plan, at, n, now int64) string {
	limits := p.Limits()
	var room [256]byte
	b := append(room[:0], byte(p.Mode()), byte(len(limits)))
	b = append7(b, instant(now))
	b = append7(b, at) // Oldest becomes a number above 2^53
	b = append7(b, n)
	for i := range limits {
		b = append7(appendLimit(b, &limits[i]), limits[i].Cost)
	}
	return string(b)
}

// packCount is the argument of count.lua.
func packCount(l *weir.PlanLimit, last, now int64) string {
	var room [25]byte
	b := append6(append7(room[:0], instant(now)), l.Span(last))
	return string(append6(append6(b, l.Window), cell(l)))
}

// appendLimit appends the numbers of a limit.
func appendLimit(b []byte, l *weir.PlanLimit) []byte {
	b = append7(b, l.Max)
	b = append6(b, l.Window)
	b = append6(b, l.MinInterval)
	return append6(b, cell(l))
}

// What scripts are told in place of the width of a cell, above every width: lua/history.lua
// says what they mean.
const (
	calendarCell = 1<<48 - 1
	firstHitCell = 1<<48 - 2
)

// cell is the width of a cell of the limit, or what says that it has fixed windows.
func cell(l *weir.PlanLimit) int64 {
	switch l.Kind {
	case weir.Calendar:
		return calendarCell
	case weir.FirstHit:
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
