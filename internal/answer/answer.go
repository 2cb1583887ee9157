// Package answer formats a decision: as the JSON object that every front returns, and as
// one English sentence with the reason and the next step.
//
// It makes no decision and reads no clock. Waits are rounded up, in sentences too, so that
// obeying them is never too early.
package answer

import (
	"cmp"
	"errors"
	"iter"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// Answer is a decision with its request and the states of its limits.
// Compiled and Decision are required.
type Answer struct {
	Compiled *engine.Compiled
	Key      weir.Key
	Op       engine.Op // an attempt, a peek or a record
	N        int64     // requested units, 0 … weir.MaxUnits
	Decision weir.Decision
	States   []weir.LimitState // as Request.States: in the order of the limits, or nil
	Units    []string          // the word for each limit's units ("messages"); "" or missing = none
	Waits    bool              // the request may wait, also for 0: the JSON has its start
	Blocked  time.Time         // the end of the block that denies the key; zero = none does
}

// Of returns the answer of an attempt.
func Of(o *weir.Outcome) *Answer {
	return &Answer{
		Compiled: o.Rules,
		Key:      o.Key,
		N:        o.N,
		Decision: o.Decision,
		States:   o.States,
		Units:    o.Units,
		Blocked:  o.Blocked,
	}
}

// AppendJSON appends the answer as one JSON object, without a newline.
func (a *Answer) AppendJSON(b []byte, by *Applied) []byte {
	j := JSON{Text: b}
	j.Object("")
	a.WriteMembers(&j, by)
	j.EndObject()
	return j.Text
}

// WriteMembers writes the members of the answer. Milliseconds are rounded up, retry_after_us is exact,
// and -1 stands for weir.Never. The members degraded, replayed and cached are present only when
// they are true. The answer to a request that may wait has start_after_ms, and start_at with the
// exact instant after a new grant. by adds the parts of a policy file that applied: plan,
// override, shadow, block and warnings; nil = none.
func (a *Answer) WriteMembers(j *JSON, by *Applied) {
	d := &a.Decision
	j.Bool("allowed", d.Allowed)
	j.String("policy", a.Compiled.Name)
	j.Int("granted", d.Granted)
	j.Int("remaining", d.Remaining)
	j.Int("retry_after_ms", Millis(d.RetryAfter))
	j.Int("retry_after_us", Micros(d.RetryAfter))
	j.Int("reset_after_ms", Millis(d.ResetAfter))
	j.Instant("at", d.At)
	if a.Waits {
		j.Int("start_after_ms", Millis(d.StartAfter))
		if start, ok := Start(d); ok {
			j.Instant("start_at", start)
		}
	}
	j.String("limit", d.Limit)
	if d.Degraded {
		j.Bool("degraded", true)
	}
	if d.Replayed {
		j.Bool("replayed", true)
	}
	if d.Cached {
		j.Bool("cached", true)
	}
	if by != nil {
		by.WriteMembers(j)
	}
	a.writeWhy(j, by)
	j.Array("limits")
	for i := range a.Known() {
		j.Object("")
		a.writeLimit(j, i)
		j.EndObject()
	}
	j.EndArray()
}

// writeWhy writes the sentence of Why.
func (a *Answer) writeWhy(j *JSON, by *Applied) {
	var why [256]byte // longer sentences are allocated
	j.Text = appendString(j.begin("why"), a.appendWhy(why[:0], by))
}

// Start returns the instant at which the use of granted units begins (R18), which a refund names to
// cancel it. Only a new grant has it: StartAfter of a replay begins now, and At is the instant of
// the first answer.
func Start(d *weir.Decision) (start time.Time, ok bool) {
	return d.At.Add(d.StartAfter), d.Allowed && !d.Replayed
}

// Known yields the known states with the indices of their limits. A fallback without the
// store leaves a state without a name; such states are not shown.
func (a *Answer) Known() iter.Seq2[int, *weir.LimitState] {
	return func(yield func(int, *weir.LimitState) bool) {
		for i := range a.States {
			if s := &a.States[i]; s.Name != "" && !yield(i, s) {
				return
			}
		}
	}
}

// Millis converts a wait to whole milliseconds, rounded up; weir.Never is -1.
func Millis(d time.Duration) int64 { return ceil(d, time.Millisecond) }

// Seconds converts a wait to whole seconds, rounded up; weir.Never is -1.
func Seconds(d time.Duration) int64 { return ceil(d, time.Second) }

// Micros converts a wait to whole microseconds, rounded up; weir.Never is -1.
func Micros(d time.Duration) int64 { return ceil(d, time.Microsecond) }

// ceil rounds up. It adds to the quotient, because a sum with a long wait would overflow.
func ceil(d, unit time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	whole := int64(d / unit)
	if d%unit > 0 {
		whole++
	}
	return whole
}

// Applied holds the parts of a policy file that made a decision, besides its limits. The
// zero Applied means that none did.
type Applied struct {
	Plan     string        // the plan with the numbers that applied
	Override string        // the reason of the override that applied
	Until    time.Time     // the end of the override; zero = it stays
	Shadow   bool          // decided and not enforced
	Would    weir.Decision // with Shadow: the decision
	Blocked  time.Time     // the end of a block of the key; zero = there is none
	Warnings []string      // limits that the grant filled up to the share of their warning
}

// WriteMembers writes the members of by; none for the zero Applied.
func (by *Applied) WriteMembers(j *JSON) {
	if by.Plan != "" {
		j.String("plan", by.Plan)
	}
	if by.Override != "" {
		j.Object("override")
		j.String("why", by.Override)
		if !by.Until.IsZero() {
			j.String("until", by.Until.UTC().Format(time.RFC3339))
		}
		j.EndObject()
	}
	if !by.Blocked.IsZero() {
		j.Instant("blocked_until", by.Blocked)
	}
	if len(by.Warnings) > 0 {
		j.Bool("warning", true)
		j.Strings("warning_limits", by.Warnings)
	}
	if by.Shadow {
		j.Bool("shadow", true)
		j.Object("would")
		j.Bool("allowed", by.Would.Allowed)
		j.Int("granted", by.Would.Granted)
		j.Int("retry_after_us", Micros(by.Would.RetryAfter))
		j.String("limit", by.Would.Limit)
		j.EndObject()
	}
}

// ForError is the answer of a protocol to an error. Its code is of type C.
type ForError[C any] struct {
	err  error
	code C
	text string
}

// For returns the answer to errors that wrap err, or to all others if err is nil. If text is "",
// the error's own text is used.
func For[C any](err error, code C, text string) ForError[C] { return ForError[C]{err, code, text} }

// ToError returns the code and the text of the first answer that fits err. The last answer fits
// every error.
func ToError[C any](err error, all []ForError[C]) (code C, text string) {
	for _, a := range all {
		if code, text = a.code, cmp.Or(a.text, err.Error()); errors.Is(err, a.err) {
			break
		}
	}
	return code, text
}

// IsBadInput reports whether an error of a limiter concerns the request and not the
// engine: the same request would be rejected again (R10, R14).
func IsBadInput(err error) bool {
	return errors.Is(err, weir.ErrInput) || errors.Is(err, weir.ErrOverflow)
}

// Logged returns the text of an error of the store for the log, without keys: they are
// personal data. The error itself may name a key, for the caller that sent it.
func Logged(err error) string {
	if errors.Is(err, weir.ErrUnreadable) {
		return weir.ErrUnreadable.Error() + ", which is not named here; " +
			"weir check with the same --store and that key shows the reason"
	}
	return err.Error()
}
