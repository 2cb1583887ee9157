package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// answer is the result of one step. The zero answer is that of a reset without error.
type answer struct {
	err      string            // one of errorWords or the text of an unknown error; "" = none
	decision weir.Decision     // of take, peek and record
	states   []weir.LimitState // of take, peek and record with states
	units    int64             // of refund and count
}

// errorWords are the errors a vector may expect, by the word it uses for them.
var errorWords = []struct {
	word string
	err  error
}{
	{"units", weir.ErrUnits},
	{"key", weir.ErrKey},
	{"instant", weir.ErrInstant},
	{"limit", weir.ErrUnknownLimit},
	{"span", weir.ErrRange},
	{"id", weir.ErrID},
	{"overflow", weir.ErrOverflow},
	{"full", weir.ErrFull},
}

// errorWord returns the word for err, or its quoted text if there is none.
func errorWord(err error) string {
	for _, e := range errorWords {
		if errors.Is(err, e.err) {
			return e.word
		}
	}
	return fmt.Sprintf("%q", err.Error())
}

// equal reports whether two answers are the same, to the nanosecond.
func (a answer) equal(b answer) bool { return a.difference(b) == "" }

// difference names the first field in which got differs from a, or "". Fields that affect
// a caller most come first; those that explain a difference come last.
func (a answer) difference(got answer) string {
	w, g := a.decision, got.decision
	switch {
	case a.err != got.err:
		return "error"
	case a.units != got.units:
		return "units"
	case w.Allowed != g.Allowed || w.Granted != g.Granted:
		return "granted"
	case !w.At.Equal(g.At):
		return "at"
	case w.Remaining != g.Remaining:
		return "remaining"
	case w.RetryAfter != g.RetryAfter:
		return "wait"
	case w.ResetAfter != g.ResetAfter:
		return "reset"
	case w.Limit != g.Limit:
		return "limit"
	case w.Degraded != g.Degraded:
		return "degraded"
	case w.Replayed != g.Replayed:
		return "repeated"
	case !slices.Equal(a.states, got.states):
		return "states"
	}
	return ""
}

// text formats the answer to s as in a vector, without states. Instants are relative to
// epoch.
func (a answer) text(s step, epoch int64) string {
	switch {
	case a.err != "":
		return "error=" + a.err
	case s.op == opReset:
		return "done"
	case s.op == opRefund:
		return fmt.Sprintf("refunded=%d", a.units)
	case s.op == opCount:
		return fmt.Sprintf("count=%d", a.units)
	}
	d := a.decision
	var b strings.Builder
	b.WriteString(map[bool]string{true: "allowed", false: "denied"}[d.Allowed])
	fmt.Fprintf(&b, " granted=%d remaining=%d wait=%s reset=%s",
		d.Granted, d.Remaining, waitText(d.RetryAfter), spanText(d.ResetAfter))
	if d.Limit != "" {
		fmt.Fprintf(&b, " limit=%s", d.Limit)
	}
	if at := d.At.Sub(time.UnixMicro(epoch)); at != s.at {
		fmt.Fprintf(&b, " at=%s", spanText(at))
	}
	if d.Degraded {
		b.WriteString(" degraded")
	}
	if d.Replayed {
		b.WriteString(" repeated")
	}
	return b.String()
}

// stateText formats the state of one limit as in a vector.
func stateText(s weir.LimitState) string {
	return fmt.Sprintf("%s: used=%d remaining=%d wait=%s next=%s gap=%s reset=%s", s.Name, s.Used, s.Remaining,
		waitText(s.RetryAfter), spanText(s.NextAfter), spanText(s.MinIntervalAfter), spanText(s.ResetAfter))
}

func waitText(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	return spanText(d)
}

// spanText formats d for time.ParseDuration: 10m, 59.999999s, 1us.
func spanText(d time.Duration) string {
	s := strings.Replace(d.String(), "µ", "u", 1)
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
