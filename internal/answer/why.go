package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// Why returns the decision and the next step as one English sentence, such as "10 of 10
// used in the last 30m for category=errors; room again in 6m52s". Shown formats values that
// callers chose. If by has a shadow, the sentence is about the decision that is not enforced.
func (a *Answer) Why(by *Applied) string { return string(a.appendWhy(nil, by)) }

// appendWhy appends the sentence of Why.
func (a *Answer) appendWhy(b []byte, by *Applied) []byte {
	if by != nil && by.Shadow {
		would := *a
		would.Decision = by.Would
		a, b = &would, would.appendShadow(b)
	}
	i := a.subject()
	switch {
	case i < 0:
		b = a.appendUnknown(b)
	case !a.Decision.Allowed && a.Decision.Limit == "": // other checks of the request denied
		b = a.appendOthers(b)
	case a.Op == engine.Record && a.N > 0: // a record of 0 units is a peek (R4)
		b = a.appendUnits(append(b, "recorded "...), i, a.taken(i))
		b = a.appendAllowed(append(b, ": "...), i)
	case !a.Decision.Allowed && !a.Blocked.IsZero():
		b = a.appendUntil(a.appendKey(append(b, "blocked"...), i, byAll))
	case !a.Decision.Allowed:
		b = a.appendDenied(b, i)
	case a.Decision.Granted < a.N:
		b = a.appendPart(b, i)
	case a.Decision.StartAfter > 0:
		b = a.appendTurn(b, i)
	default:
		b = a.appendAllowed(b, i)
	}
	if a.Decision.Degraded && i >= 0 {
		b = append(b, "; the store could not decide, a fallback answered"...)
	}
	return b
}

// appendShadow appends the words before a decision that is not enforced.
func (a *Answer) appendShadow(b []byte) []byte {
	verdict := "denied"
	switch {
	case a.Decision.Allowed && a.Decision.Granted < a.N:
		verdict = "allowed in part"
	case a.Decision.Allowed:
		verdict = "allowed"
	}
	return append(append(append(b, "shadow, not enforced: would be "...), verdict...), ": "...)
}

// subject returns the index of the limit that the sentence is about: the binding one, or
// the one with the longest wait, or the one with the least room. -1 if no state is known.
func (a *Answer) subject() int {
	best := -1
	for i, s := range a.Known() {
		if a.Decision.Limit != "" && s.Name == a.Decision.Limit {
			return i
		}
		if best < 0 || matters(s, &a.States[best]) {
			best = i
		}
	}
	return best
}

// matters reports whether s matters more than t for the next attempt.
func matters(s, t *weir.LimitState) bool {
	if s.RetryAfter == t.RetryAfter {
		return s.Remaining < t.Remaining
	}
	return s.RetryAfter > t.RetryAfter
}

// appendUnknown appends the sentence of a decision without states.
func (a *Answer) appendUnknown(b []byte) []byte {
	d := &a.Decision
	switch {
	case d.Replayed:
		b = AppendInstant(append(b, "answered as at "...), d.At)
		b = append(b, ": this operation was made before, and is charged once"...)
		if d.StartAfter > 0 {
			b = append(append(b, "; your turn in "...), Wait(d.StartAfter)...)
		}
		return b
	case d.Degraded && d.Allowed:
		return append(b, "allowed without counting: the store could not decide"...)
	case d.Degraded:
		return append(b, "denied: the store could not decide; try again later"...)
	case d.Allowed && d.StartAfter > 0:
		return append(append(b, "your turn in "...), Wait(d.StartAfter)...)
	case d.Allowed:
		return fmt.Appendf(b, "%d left", d.Remaining)
	case !a.Blocked.IsZero():
		return a.appendUntil(append(b, "blocked"...))
	case d.RetryAfter == weir.Never:
		return fmt.Appendf(b, "limit %q can never grant this; ask for less", d.Limit)
	}
	return fmt.Appendf(b, "limit %q denied; the same fits in %s", d.Limit, Wait(d.RetryAfter))
}

// appendOthers appends the sentence of an attempt that only other checks of its request denied.
func (a *Answer) appendOthers(b []byte) []byte {
	b = append(b, "denied because of the checks decided together with it; "...)
	if a.Decision.RetryAfter == weir.Never {
		return append(b, "together they never fit, ask for less"...)
	}
	return append(append(b, "all of them fit in "...), Wait(a.Decision.RetryAfter)...)
}

// appendDenied appends the sentence of an attempt that limit i denied.
func (a *Answer) appendDenied(b []byte, i int) []byte {
	s := &a.States[i]
	partial := a.Compiled.Mode == weir.Partial
	n := a.taken(i)
	switch {
	case s.Max == 0 || n > a.Compiled.Limits[i].Capacity && !partial:
		return a.appendNever(b, i)
	case s.MinIntervalAfter > 0 && (s.Remaining >= n || partial && s.Remaining > 0):
		return a.appendTooClose(b, i)
	case s.Remaining > 0:
		b = a.appendUsed(b, i)
		asked := strconv.FormatInt(n, 10)
		b = append(b, " and "+asked+" more asked for"...)
		return a.appendWhen(b, i, "room for "+asked+" in ")
	}
	b = a.appendUsed(b, i)
	if a.Compiled.Mode == weir.CountDenied {
		b = append(b, ", denied attempts included"...)
	}
	return a.appendWhen(b, i, a.roomAgain(i))
}

// appendUntil appends the blocking limit, the end of the block and the wait.
func (a *Answer) appendUntil(b []byte) []byte {
	b = AppendInstant(fmt.Appendf(b, " by limit %q until ", a.Decision.Limit), a.Blocked)
	if a.Decision.RetryAfter == weir.Never {
		return append(b, "; the same never fits, ask for less"...)
	}
	return append(append(b, "; the same fits in "...), Wait(a.Decision.RetryAfter)...)
}

// taken returns the units that the request takes of limit i.
func (a *Answer) taken(i int) int64 { return a.Compiled.Limits[i].Units(a.N) }

// appendTooClose appends the sentence of an attempt that has room, but comes within the minimum
// interval.
func (a *Answer) appendTooClose(b []byte, i int) []byte {
	s := &a.States[i]
	ago := s.MinInterval - s.MinIntervalAfter
	switch {
	case ago < 0:
		b = a.appendKey(fmt.Appendf(b, "the last grant begins in %s and grants must be %s apart",
			Wait(-ago), Exactly(s.MinInterval)), i, byAll)
	case a.Compiled.Mode == weir.CountDenied:
		b = a.appendKey(fmt.Appendf(b,
			"attempts must be %s apart", Exactly(s.MinInterval)), i, byAll)
		b = append(b, ", and a denied one counts too"...)
	default:
		b = a.appendKey(fmt.Appendf(b, "the last grant was %s ago and grants must be %s apart",
			Ago(ago), Exactly(s.MinInterval)), i, byAll)
	}
	return a.appendWhen(b, i, "open again in ")
}

// appendPart appends the sentence of a partial grant, or of a peek at one.
func (a *Answer) appendPart(b []byte, i int) []byte {
	b = a.appendUnits(fmt.Appendf(b, "%d of the ", a.Decision.Granted), i, a.N)
	if a.Op == engine.Peek {
		b = append(b, " would be granted: "...)
	} else {
		b = append(b, " granted: "...)
	}
	b = a.appendUsed(b, i)
	return a.appendWhen(b, i, "room for all "+strconv.FormatInt(a.N, 10)+" in ")
}

// appendAllowed appends the sentence of a full grant, of a record, or of a peek at a full grant.
func (a *Answer) appendAllowed(b []byte, i int) []byte {
	s := &a.States[i]
	b = a.appendUsed(b, i)
	saysLeft := a.Decision.Degraded || s.Burst != 0
	if s.Max != weir.MaxUnits && s.Remaining > 0 && !saysLeft {
		b = append(strconv.AppendInt(append(b, ", "...), s.Remaining, 10), " left"...)
	}
	if again := a.Decision.RetryAfter; again > 0 && again != weir.Never {
		b = a.appendWait(append(b, "; the same again fits in "...), i, again)
	}
	return b
}

// appendTurn appends the sentence of a grant whose use begins later (R18).
func (a *Answer) appendTurn(b []byte, i int) []byte {
	before := a.States[i].Ahead - a.taken(i)
	switch {
	case before <= 0:
		b = append(b, "nobody waits"...)
	case before == 1 && a.word(i) == "":
		b = append(b, "1 unit waits"...)
	default:
		b = append(a.appendUnits(b, i, before), " wait"...)
	}
	b = a.appendKey(append(b, " before you"...), i, ", among all callers together")
	return append(append(b, "; your turn in "...), Wait(a.Decision.StartAfter)...)
}

// Span formats the length of a window: "second", "minute", "hour", or as Exactly does.
func Span(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return Exactly(d)
}

// appendWhen appends the wait until the same attempt is granted in full or, if in mode
// Partial it never is, until a part of it may be.
func (a *Answer) appendWhen(b []byte, i int, what string) []byte {
	s := &a.States[i]
	wait := a.Decision.RetryAfter
	if wait != weir.Never {
		return a.appendWait(append(append(b, "; "...), what...), i, wait)
	}
	if a.Compiled.Mode != weir.Partial { // the sum of checks decided together is above Max
		return append(b, "; together with the other checks it never fits, ask for less"...)
	}
	wait = 0
	if s.Remaining <= 0 {
		wait = s.NextAfter // for a request far above Max, only the wait for the first unit is known
	}
	return a.appendWait(fmt.Appendf(b, "; all %d never fit at once, some may in ", a.N),
		i, max(s.MinIntervalAfter, wait))
}

// byAll are the words for a history that all callers share.
const byAll = " by all callers together"

// appendKey appends the key of the history: " for teacher=42", or the words shared for a history
// of all callers if other limits of the policy have dimensions.
func (a *Answer) appendKey(b []byte, i int, shared string) []byte {
	by := a.Compiled.Limits[i].By
	if len(by) == 0 && len(a.Compiled.Dimensions) > 0 {
		return append(b, shared...)
	}
	between := " for "
	for dim, name := range a.Compiled.Dimensions { // in the order of the policy
		if slices.Contains(by, dim) {
			b = append(append(append(b, between...), name...), '=')
			b = append(b, Shown(a.Key.Value(dim))...)
			between = ", "
		}
	}
	return b
}

// appendUnits appends "15 messages", or "15 units" where the limit has no word.
func (a *Answer) appendUnits(b []byte, i int, n int64) []byte {
	b = strconv.AppendInt(b, n, 10)
	word := "units"
	if n == 1 {
		word = "unit"
	}
	return append(append(b, ' '), cmp.Or(a.word(i), word)...)
}

func (a *Answer) word(i int) string {
	if i < len(a.Units) {
		return a.Units[i]
	}
	return ""
}
