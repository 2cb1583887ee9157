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
	opSettle = "settle" // units of a reservation that were really used
	opExtend = "extend" // renews a reservation, and takes further units
	opBlock  = "block"  // blocks the key, or ends its blocks
	opProbe  = "probe"  // a peek that begins a block if it is denied
	opChange = "change" // changes numbers of the policy
	opUse    = "use"    // selects the policy of the next steps
)

// step is one line of a vector: a call and its expected answer. Instants are relative to
// the vector's epoch.
type step struct {
	op    string
	at    time.Duration
	n     int64         // units; of a settle also engine.AllUnits
	from  time.Duration // refund: the instant at which the units were granted, or oldest
	limit string        // count: the limit's name
	last  time.Duration // count: the span; block: its time
	names []string      // reset and block: the limits; none = those that count by every dimension
	ttl   time.Duration // take: life of the reservation that it opens; 0 = none
	wait  time.Duration // take: the longest time for which it may wait (R18)
	had   string        // extend: the units that the reservation had before; "" = unknown
	key   []keyPart
	id    string   // idempotency key, or the reservation; "" = none
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

// decides reports whether the answer to the step is a weir.Decision with states.
func (s step) decides() bool {
	return s.op == opTake || s.op == opPeek || s.op == opRecord || s.op == opProbe
}

// isDecided reports whether the answer to the step allows or denies units.
func (s step) isDecided() bool { return s.decides() || s.op == opExtend && s.n > 0 }

// isDated reports whether the answer to the step has an instant.
func (s step) isDated() bool {
	return s.decides() || s.op == opSettle || s.op == opExtend || s.op == opBlock
}

// usesReservation reports whether the step opens, settles or extends a reservation.
func (s step) usesReservation() bool { return s.ttl > 0 || s.op == opSettle || s.op == opExtend }

// readsOnly reports whether the step never changes a history.
func (s step) readsOnly() bool { return s.op == opPeek || s.op == opCount }

// writes reports whether the step with answer a may have changed a history, a block or a
// reservation. Adjustments of the clock (R2) by a denial do not count.
func (s step) writes(mode weir.Mode, a answer) bool {
	if a.err != "" || a.decision.Replayed {
		return false
	}
	switch s.op {
	case opTake:
		return s.n > 0 && (a.decision.Granted > 0 || mode == weir.CountDenied || a.decision.Blocked > 0)
	case opRecord:
		return s.n > 0
	case opRefund:
		return a.units > 0
	case opProbe:
		return s.n > 0 && a.decision.Blocked > 0
	case opExtend:
		return s.n == 0 || a.decision.Allowed
	}
	return s.op == opReset || s.op == opSettle || s.op == opBlock
}

// records reports whether the step with answer a surely recorded its units in every limit. A
// denial with a block in CountDenied did if it began the block, and not if the block ran (R20).
func (s step) records(mode weir.Mode, a answer) bool {
	if a.err != "" || a.decision.Replayed || s.n == 0 {
		return false
	}
	counted := mode == weir.CountDenied && a.decision.Blocked == 0
	return s.op == opRecord || s.op == opTake && (a.decision.Granted > 0 || counted)
}

// takesID reports whether the step may have an id: decisions, refunds and settlements may; a
// peek ignores it.
func (s step) takesID() bool {
	return s.decides() && s.op != opProbe || s.op == opRefund || s.usesReservation()
}

// isDirect reports whether the step is a call of the engine itself: a Limiter has other verbs for
// reservations and blocks, with ranges of their own.
func (s step) isDirect() bool {
	return s.usesReservation() || s.op == opBlock || s.op == opProbe
}

// checkID returns an error if the step lacks the id of its reservation.
func (s step) checkID() error {
	if s.usesReservation() && s.id == "" {
		return fmt.Errorf("a reservation without #ID")
	}
	return nil
}

// arguments returns the fields after the operation.
func (s *step) arguments() []field {
	switch s.op {
	case opRefund:
		return []field{{"", &s.n}, {"from", &s.from}}
	case opCount:
		return []field{{"", &s.limit}, {"last", &s.last}}
	case opBlock:
		return []field{{"", &s.last}}
	case opSettle:
		return []field{{"", (*actual)(&s.n)}}
	case opReset:
		return nil
	}
	return []field{{"", &s.n}}
}

// options returns the fields after the arguments that may be missing.
func (s *step) options() []field {
	switch s.op {
	case opReset, opBlock:
		return []field{{"limit", &s.names}}
	case opTake:
		return []field{{"maxwait", &s.wait}, {"ttl", &s.ttl}}
	case opExtend:
		return []field{{"from", &s.had}}
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
