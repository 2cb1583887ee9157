// Package answer puts a decision into words: the JSON object that every front
// end of Weir gives, and one English sentence that a person can act on.
//
// It decides nothing and reads no clock. Whatever it rounds, it rounds so that
// who obeys is never too early: waits go up, also when only shown.
package answer

import (
	"iter"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
)

// Answer is a decision together with what was asked and what the limits hold.
// Plan and Decision are required.
type Answer struct {
	Plan     *weir.Plan
	Key      weir.Key
	Op       weir.Op // what was asked: an attempt, a peek or a record
	N        int64   // units asked for, 0 … weir.MaxUnits
	Decision weir.Decision
	States   []weir.LimitState // as Request.States: in the plan's order, or nil
	Units    []string          // the word for each limit's units, such as "messages"; "" or missing = no word
	Blocked  time.Time         // until when a block of a policy file refuses the key; zero = none does
}

// AppendJSON appends the answer as one JSON object, without a newline.
// Milliseconds are rounded up, retry_after_us is exact, and -1 stands for
// weir.Never. The members degraded and repeated are there only when they are true.
func (a *Answer) AppendJSON(b []byte) []byte { return a.AppendJSONOf(b, nil) }

// AppendJSONOf is AppendJSON of a decision by a policy file: plan, override and
// shadow are there where they applied.
func (a *Answer) AppendJSONOf(b []byte, by *Applied) []byte {
	d := &a.Decision
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	b = append(b, `,"policy":`...)
	b = AppendString(b, a.Plan.Name())
	b = appendInt(b, `,"granted":`, d.Granted)
	b = appendInt(b, `,"remaining":`, d.Remaining)
	b = appendInt(b, `,"retry_after_ms":`, Millis(d.RetryAfter))
	b = appendInt(b, `,"retry_after_us":`, Micros(d.RetryAfter))
	b = appendInt(b, `,"reset_after_ms":`, Millis(d.ResetAfter))
	b = append(b, `,"at":"`...)
	b = d.At.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(b, `","limit":`...)
	b = AppendString(b, d.Limit)
	if d.Degraded {
		b = append(b, `,"degraded":true`...)
	}
	if d.Replayed {
		b = append(b, `,"repeated":true`...)
	}
	if by != nil {
		b = by.Append(b)
	}
	b = append(b, `,"why":`...)
	b = AppendString(b, a.WhyOf(by))
	b = append(b, `,"limits":[`...)
	b = a.appendLimits(b)
	return append(b, "]}"...)
}

// Known yields the states somebody looked at, with their places in the plan. A
// fallback that could not look leaves a state without a name: what nobody knows
// is not shown.
func (a *Answer) Known() iter.Seq2[int, *weir.LimitState] {
	return func(yield func(int, *weir.LimitState) bool) {
		for i := range a.States {
			if s := &a.States[i]; s.Name != "" && !yield(i, s) {
				return
			}
		}
	}
}

// appendLimits appends the states, separated by commas.
func (a *Answer) appendLimits(b []byte) []byte {
	first := true
	for i, s := range a.Known() {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = a.appendLimit(b, i, s)
	}
	return b
}

func (a *Answer) appendLimit(b []byte, i int, s *weir.LimitState) []byte {
	b = append(b, `{"name":`...)
	b = AppendString(b, s.Name)
	b = append(b, `,"key":{`...)
	for j, dim := range a.Plan.Limits()[i].By {
		if j > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, a.Plan.Dimensions()[dim])
		b = append(b, ':')
		b = AppendString(b, a.Key.Value(dim))
	}
	b = appendInt(b, `},"max":`, s.Max)
	b = appendInt(b, `,"used":`, s.Used)
	b = appendInt(b, `,"remaining":`, s.Remaining)
	b = appendInt(b, `,"window_ms":`, Millis(s.Window))
	if s.MinInterval > 0 {
		b = appendInt(b, `,"gap_ms":`, Millis(s.MinInterval))
	}
	b = appendInt(b, `,"retry_after_ms":`, Millis(s.RetryAfter))
	b = appendInt(b, `,"next_ms":`, Millis(s.NextAfter))
	b = appendInt(b, `,"reset_after_ms":`, Millis(s.ResetAfter))
	return append(b, '}')
}

func appendInt(b []byte, member string, n int64) []byte {
	return strconv.AppendInt(append(b, member...), n, 10)
}

// Millis converts a wait to whole milliseconds, rounded up; weir.Never is -1.
func Millis(d time.Duration) int64 { return ceil(d, time.Millisecond) }

// Seconds converts a wait to whole seconds, rounded up; weir.Never is -1.
func Seconds(d time.Duration) int64 { return ceil(d, time.Second) }

// Micros converts a wait to whole microseconds, rounded up; weir.Never is -1.
func Micros(d time.Duration) int64 { return ceil(d, time.Microsecond) }

func ceil(d, unit time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	n := d / unit
	if d%unit > 0 {
		n++
	}
	return int64(n)
}
