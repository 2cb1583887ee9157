package conformance

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// The operations of a vector's steps.
const (
	opTake   = "take"   // an attempt
	opPeek   = "peek"   // an attempt that changes nothing
	opRecord = "record" // units without a decision
	opRefund = "refund" // takes units back
	opCount  = "count"  // units of the last span
	opReset  = "reset"  // forget the key
	opChange = "change" // changes numbers of the policy
	opUse    = "use"    // selects the policy of the next steps
)

// step is one line of a vector: a call and its expected answer. Instants are relative to
// the vector's epoch.
type step struct {
	op    string
	at    time.Duration
	n     int64         // units of take, peek, record and refund
	from  time.Duration // refund: the instant at which the units were granted, or oldest
	limit string        // count: the limit's name
	last  time.Duration // count: the span
	names []string      // reset: the limits; none = those that count by every dimension
	key   []keyPart
	id    string   // idempotency key; "" = none
	words []string // change and use: the other words of the line

	states bool // the call requests the states of the limits
	want   answer
}

// oldest, as the from of a refund, stands for the oldest entries that count.
const oldest time.Duration = math.MinInt64

// keyPart is the value of one dimension.
type keyPart struct{ dim, value string }

// callsEngine reports whether the step is a call.
func (s step) callsEngine() bool { return s.op != opChange && s.op != opUse }

// decides reports whether the answer to the step is a weir.Decision.
func (s step) decides() bool { return s.op == opTake || s.op == opPeek || s.op == opRecord }

// readsOnly reports whether the step never changes a history.
func (s step) readsOnly() bool { return s.op == opPeek || s.op == opCount }

// writes reports whether the step with answer a changed a history: it recorded units, took
// them back, or reset it. Adjustments of the clock (R2) by a denial do not count.
func (s step) writes(mode weir.Mode, a answer) bool {
	if a.err != "" || a.decision.Replayed {
		return false
	}
	switch s.op {
	case opTake:
		return s.n > 0 && (a.decision.Granted > 0 || mode == weir.CountDenied)
	case opRecord:
		return s.n > 0
	case opRefund:
		return a.units > 0
	}
	return s.op == opReset
}

// takesID reports whether the step may have an id: decisions and refunds may; a peek
// ignores it.
func (s step) takesID() bool { return s.decides() || s.op == opRefund }

// arguments returns the fields after the operation.
func (s *step) arguments() []field {
	switch s.op {
	case opRefund:
		return []field{{"", &s.n}, {"from", &s.from}}
	case opCount:
		return []field{{"", &s.limit}, {"last", &s.last}}
	case opReset:
		return nil
	}
	return []field{{"", &s.n}}
}

// options returns the fields after the arguments that may be missing.
func (s *step) options() []field {
	if s.op == opReset {
		return []field{{"limit", &s.names}}
	}
	return nil
}

// text formats the step as in a vector, without its answer.
func (s step) text() string {
	if !s.callsEngine() {
		return strings.Join(append([]string{s.op}, s.words...), " ")
	}
	text := fmt.Sprintf("@%-14s %s", spanText(s.at), s.op) + texts(s.arguments(), s.options())
	if s.id != "" {
		text += " #" + valueText(s.id)
	}
	for _, part := range s.key {
		text += " " + part.dim + "=" + valueText(part.value)
	}
	return text
}

// valueText quotes v unless it is a plain word. A long run of one byte becomes "x"*1025.
func valueText(v string) string {
	if len(v) > 64 && v == strings.Repeat(v[:1], len(v)) {
		return fmt.Sprintf("%q*%d", v[:1], len(v))
	}
	if !plainWord.MatchString(v) {
		return strconv.Quote(v)
	}
	return v
}

var plainWord = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
