package answer

import (
	"strconv"
	"time"

	"github.com/weirlimit/weir"
)

// Why returns the decision and the next step as one English sentence, such as "10 of 10 used in the last 30m for category=errors; room again in
// 6m52s". Values that callers chose are shown by Shown.
func (a *Answer) Why() string {
	b := make([]byte, 0, 128)
	i := a.subject()
	switch {
	case i < 0:
		b = a.appendUnknown(b)
	case a.Op == weir.OpRecord:
		b = append(b, "recorded "...)
		b = a.appendUnits(b, i, a.taken(i))
		b = append(b, ": "...)
		b = a.appendAllowed(b, i)
	case !a.Decision.Allowed && !a.Blocked.IsZero():
		b = a.appendBlocked(b, i)
	case !a.Decision.Allowed:
		b = a.appendRefused(b, i)
	case a.Decision.Granted < a.N:
		b = a.appendPart(b, i)
	default:
		b = a.appendAllowed(b, i)
	}
	if a.Decision.Degraded && i >= 0 {
		b = append(b, "; the store could not be asked, a fallback answered"...)
	}
	return string(b)
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
	if s.RetryAfter != t.RetryAfter && t.RetryAfter != weir.Never {
		return s.RetryAfter == weir.Never || s.RetryAfter > t.RetryAfter
	}
	return s.RetryAfter == t.RetryAfter && s.Remaining < t.Remaining
}

// appendUnknown appends the sentence of a decision without states.
func (a *Answer) appendUnknown(b []byte) []byte {
	d := &a.Decision
	switch {
	case d.Replayed:
		b = append(b, "answered as at "...)
		b = d.At.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
		return append(b, ": this operation was made before, and is charged once"...)
	case d.Degraded && d.Allowed:
		return append(b, "allowed without counting: the store could not be asked"...)
	case d.Degraded:
		return append(b, "refused: the store could not be asked; try again later"...)
	case d.Allowed:
		return append(strconv.AppendInt(b, d.Remaining, 10), " left"...)
	case !a.Blocked.IsZero():
		return a.appendUntil(append(b, "blocked"...))
	case d.RetryAfter == weir.Never:
		b = append(append(b, "limit "...), strconv.Quote(d.Limit)...)
		return append(b, " can never grant this; ask for less"...)
	}
	b = append(append(b, "limit "...), strconv.Quote(d.Limit)...)
	b = append(b, " refused; the same fits in "...)
	return append(b, Wait(d.RetryAfter)...)
}

// appendRefused: the attempt got nothing.
func (a *Answer) appendRefused(b []byte, i int) []byte {
	s := &a.States[i]
	partial := a.Plan.Mode() == weir.Partial
	n := a.taken(i)
	switch {
	case s.Max == 0 || n > s.Max && !partial:
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
	if a.Plan.Mode() == weir.CountDenied {
		b = append(b, ", refused attempts included"...)
	}
	return a.appendWhen(b, i, "room again in ")
}

// appendBlocked: limit i blocks the key after a denial.
func (a *Answer) appendBlocked(b []byte, i int) []byte {
	b = a.appendKey(append(b, "blocked"...), i)
	return a.appendUntil(b)
}

// appendUntil appends the blocking limit, the end of the block and the wait.
func (a *Answer) appendUntil(b []byte) []byte {
	b = append(append(b, " by limit "...), strconv.Quote(a.Decision.Limit)...)
	b = a.Blocked.UTC().AppendFormat(append(b, " until "...), "2006-01-02T15:04:05.000000Z")
	if a.Decision.RetryAfter == weir.Never {
		return append(b, "; the same never fits, ask for less"...)
	}
	return append(append(b, "; the same fits in "...), Wait(a.Decision.RetryAfter)...)
}

// taken returns the units that the request takes of limit i.
func (a *Answer) taken(i int) int64 { return a.Plan.Limits()[i].Units(a.N) }

// appendNever: n is above the limit's Max, and no waiting helps.
func (a *Answer) appendNever(b []byte, i int) []byte {
	s := &a.States[i]
	if s.Max == 0 {
		b = append(append(b, "limit "...), strconv.Quote(s.Name)...)
		b = append(b, " allows nothing"...)
		b = a.appendKey(b, i)
		return append(b, "; it opens only when its max is raised"...)
	}
	b = append(b, "asks for "...)
	b = a.appendUnits(b, i, a.taken(i))
	b = append(append(b, ", but limit "...), strconv.Quote(s.Name)...)
	b = append(b, " never allows more than "...)
	b = strconv.AppendInt(b, s.Max, 10)
	b = append(append(b, " in "...), Exactly(s.Window)...)
	return append(b, "; ask for less"...)
}

// appendTooClose: there is room, but the gap is closed.
func (a *Answer) appendTooClose(b []byte, i int) []byte {
	s := &a.States[i]
	if a.Plan.Mode() == weir.CountDenied {
		b = append(b, "attempts must be "...)
		b = append(append(b, Exactly(s.MinInterval)...), " apart"...)
		b = a.appendKey(b, i)
		b = append(b, ", and a refused one counts too"...)
	} else {
		b = append(append(b, "the last grant was "...), Ago(s.MinInterval-s.MinIntervalAfter)...)
		b = append(append(b, " ago and grants must be "...), Exactly(s.MinInterval)...)
		b = append(b, " apart"...)
		b = a.appendKey(b, i)
	}
	return a.appendWhen(b, i, "open again in ")
}

// appendPart: mode Partial granted fewer units than requested.
func (a *Answer) appendPart(b []byte, i int) []byte {
	b = strconv.AppendInt(b, a.Decision.Granted, 10)
	b = append(b, " of the "...)
	b = a.appendUnits(b, i, a.N)
	if a.Op == weir.OpPeek {
		b = append(b, " would be granted: "...)
	} else {
		b = append(b, " granted: "...)
	}
	b = a.appendUsed(b, i)
	return a.appendWhen(b, i, "room for all "+strconv.FormatInt(a.N, 10)+" in ")
}

// appendAllowed: granted in full, recorded, or a peek that would be.
func (a *Answer) appendAllowed(b []byte, i int) []byte {
	s := &a.States[i]
	b = a.appendUsed(b, i)
	if s.Max != weir.MaxUnits && s.Remaining > 0 {
		b = append(b, ", "...)
		b = strconv.AppendInt(b, s.Remaining, 10)
		b = append(b, " left"...)
	}
	if a.Decision.RetryAfter > 0 {
		b = append(append(b, "; the same again fits in "...), Wait(a.Decision.RetryAfter)...)
	}
	return b
}

// appendUsed appends "10 of 10 messages used in the last 30m for category=errors".
func (a *Answer) appendUsed(b []byte, i int) []byte {
	s := &a.States[i]
	b = strconv.AppendInt(b, s.Used, 10)
	if s.Max != weir.MaxUnits {
		b = append(b, " of "...)
		b = strconv.AppendInt(b, s.Max, 10)
	}
	if word := a.word(i); word != "" {
		b = append(append(b, ' '), word...)
	}
	if a.Plan.Limits()[i].Kind == weir.Rolling {
		b = append(append(b, " used in the last "...), window(s.Window)...)
	} else {
		b = append(append(b, " used in this window of "...), Exactly(s.Window)...)
	}
	return a.appendKey(b, i)
}

// appendWhen appends the wait until the same attempt is granted in full or, if in mode
// Partial it never is, until a part of it may be.
func (a *Answer) appendWhen(b []byte, i int, what string) []byte {
	s := &a.States[i]
	wait := a.Decision.RetryAfter
	if wait != weir.Never {
		return append(append(append(b, "; "...), what...), Wait(wait)...)
	}
	b = append(b, "; all "...)
	b = strconv.AppendInt(b, a.N, 10)
	b = append(b, " never fit at once, some may in "...)
	return append(b, Wait(max(s.MinIntervalAfter, nextRoom(s)))...)
}

// nextRoom returns the wait until the limit may have room for one unit; in a history far
// above its Max only the wait until the first unit leaves.
func nextRoom(s *weir.LimitState) time.Duration {
	if s.Remaining > 0 {
		return 0
	}
	return s.NextAfter
}

// appendKey appends the key of the history: " for teacher=42", or " by all callers
// together" if other limits of the policy have dimensions.
func (a *Answer) appendKey(b []byte, i int) []byte {
	by := a.Plan.Limits()[i].By
	if len(by) == 0 && len(a.Plan.Dimensions()) > 0 {
		return append(b, " by all callers together"...)
	}
	for j, dim := range by {
		if j == 0 {
			b = append(b, " for "...)
		} else {
			b = append(b, ", "...)
		}
		b = append(append(b, a.Plan.Dimensions()[dim]...), '=')
		b = append(b, Shown(a.Key.Value(dim))...)
	}
	return b
}

// appendUnits appends "15 messages", or "15 units" where the limit has no word.
func (a *Answer) appendUnits(b []byte, i int, n int64) []byte {
	b = strconv.AppendInt(b, n, 10)
	word := a.word(i)
	if word == "" {
		word = "units"
		if n == 1 {
			word = "unit"
		}
	}
	return append(append(b, ' '), word...)
}

func (a *Answer) word(i int) string {
	if i < len(a.Units) {
		return a.Units[i]
	}
	return ""
}
