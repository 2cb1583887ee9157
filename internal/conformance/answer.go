package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// answer is the result of one step.
type answer struct {
	err      string            // one of errorWords or the text of an unknown error; "" = none
	decision weir.Decision     // set by take, peek and record
	states   []weir.LimitState // set by take, peek and record with states
	units    int64             // set by refund, count and settle
	reset    []string          // set by reset: the names of the limits

	reservation engine.Reservation // set by a take with a ttl, settle and extend
}

// errorWords are the words of a vector for the errors that it may expect: fields of bad
// input, two states of a store, and two of a reservation.
var errorWords = []string{"units", "key", "instant", "limit", "span", "kind", "id", "wait", "overflow", "full", "settled", "expired"}

// draft stands for an answer or for states that -rewrite fills in. It equals no answer.
const draft = "?"

// errorWord returns the word for err, or its quoted text if there is none.
func errorWord(err error) string {
	word := ""
	var input *weir.InputError
	switch {
	case errors.As(err, &input):
		word = input.Field
	case errors.Is(err, weir.ErrOverflow):
		word = "overflow"
	case errors.Is(err, weir.ErrFull):
		word = "full"
	case errors.Is(err, weir.ErrSettled):
		word = "settled"
	case errors.Is(err, weir.ErrExpired):
		word = "expired"
	}
	if slices.Contains(errorWords, word) {
		return word
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
	case !slices.Equal(a.reset, got.reset):
		return "names"
	case w.Allowed != g.Allowed || w.Granted != g.Granted:
		return "granted"
	case !w.At.Equal(g.At):
		return "at"
	case w.StartAfter != g.StartAfter:
		return "start"
	case w.Blocked != g.Blocked:
		return "blocked"
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
		return "replayed"
	case w.Cached != g.Cached:
		return "cached"
	case w.Replayed && w.Window != 0 && numbersOf(w) != numbersOf(g): // the answer of a vector has none
		return "numbers"
	case a.reservation != got.reservation:
		return "reservation"
	case !slices.Equal(a.states, got.states):
		return "states"
	}
	return ""
}

// limitNumbers are the numbers of the limit that bound a decision. Package weir sets them, but for
// those of a replayed decision, which an engine has remembered.
type limitNumbers struct {
	kind      weir.Kind
	max, used int64
	window    time.Duration
}

func numbersOf(d weir.Decision) limitNumbers { return limitNumbers{d.Kind, d.Max, d.Used, d.Window} }

// fields returns the fields of the answer to a step: those of every answer, and
// those that are left out if they are zero.
func (a *answer) fields(s step) (must, may []field) {
	d := &a.decision
	switch {
	case s.op == opReset:
		return []field{{"reset", &a.reset}}, nil
	case s.op == opRefund || s.op == opSettle:
		return []field{{"refunded", &a.units}}, nil
	case s.op == opCount:
		return []field{{"count", &a.units}}, nil
	case s.op == opBlock:
		return []field{{"blocked", &d.Blocked}}, nil
	case !s.isDecided():
		return nil, nil
	}
	return []field{{"granted", &d.Granted}, {"remaining", &d.Remaining}, {"wait", &d.RetryAfter}, {"reset", &d.ResetAfter}},
		[]field{{"start", &d.StartAfter}, {"limit", &d.Limit}, {"blocked", &d.Blocked}}
}

// outcome returns the first word of an answer to a step without an error, or "".
func (a *answer) outcome(s step) string {
	switch {
	case s.isDecided() && a.decision.Allowed:
		return "allowed"
	case s.isDecided():
		return "denied"
	case s.op == opExtend:
		return "extended"
	}
	return ""
}

// text formats the answer to s as in a vector, without states. Instants are relative to
// epoch.
func (a answer) text(s step, epoch int64) string {
	if a.err != "" {
		return "error=" + a.err
	}
	d := a.decision
	fields := strings.TrimPrefix(a.outcome(s)+texts(a.fields(s)), " ")
	if !s.isDated() {
		return fields
	}
	if at := d.At.Sub(time.UnixMicro(epoch)); at != s.at {
		fields += " " + field{"at", &at}.text()
	}
	fields += reservationText(a.reservation, epoch)
	if d.Degraded {
		fields += " degraded"
	}
	if d.Replayed {
		fields += " replayed"
	}
	if d.Cached {
		fields += " cached"
	}
	return fields
}

// parseAnswer parses the words after the arrow.
func parseAnswer(s step, words []string, epoch int64) (a answer, err error) {
	switch {
	case len(words) == 0:
		return a, fmt.Errorf("no answer after the arrow")
	case len(words) == 1 && words[0] == draft:
		return answer{err: draft}, nil
	case len(words) == 1 && strings.HasPrefix(words[0], "error="):
		return parseError(strings.TrimPrefix(words[0], "error="))
	}
	d := &a.decision
	d.Allowed = s.isDecided() && words[0] == "allowed" || s.op == opExtend && s.n == 0
	if first := a.outcome(s); first != "" {
		if words[0] != first {
			return a, fmt.Errorf("unknown word %q; an answer begins with allowed, denied, extended or error=", words[0])
		}
		words = words[1:]
	}
	must, may := a.fields(s)
	if !s.isDated() {
		return a, readAll(words, must, may)
	}
	if last := len(words) - 1; last >= 0 && words[last] == "replayed" {
		d.Replayed, words = true, words[:last]
	}
	at := s.at
	rest, err := readFields(words, must, append(may, field{"at", &at}))
	d.At = time.UnixMicro(epoch).Add(at)
	if err == nil && len(rest) > 0 && s.usesReservation() {
		a.reservation, err = parseReservation(rest, epoch)
	} else if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unknown word %q", rest[0])
	}
	return a, err
}

// reservationText formats a reservation as in a vector, after a space. It is "" for none.
func reservationText(r engine.Reservation, epoch int64) string {
	if r.Units == 0 {
		return ""
	}
	expires, held := duration(r.ExpiresAt-epoch), duration(r.HeldUntil-epoch)
	text := texts([]field{{"units", &r.Units}, {"expires", &expires}}, nil)
	if r.HeldUntil > 0 {
		text += " " + field{"held", &held}.text()
	}
	if r.Settled {
		text += " " + field{"settled", &r.Actual}.text()
	}
	return text
}

// parseReservation parses the words of a reservation.
func parseReservation(words []string, epoch int64) (r engine.Reservation, err error) {
	var expires, held time.Duration
	hasHold := false
	must := []field{{"units", &r.Units}, {"expires", &expires}}
	for _, word := range words[min(2, len(words)):] {
		if strings.HasPrefix(word, "held=") {
			must, hasHold = append(must, field{"held", &held}), true
		}
		if strings.HasPrefix(word, "settled=") {
			must, r.Settled = append(must, field{"settled", &r.Actual}), true
		}
	}
	err = readAll(words, must, nil)
	r.ExpiresAt = epoch + expires.Microseconds()
	if hasHold {
		r.HeldUntil = epoch + held.Microseconds()
	}
	return r, err
}

// parseError parses the word of an error.
func parseError(word string) (a answer, err error) {
	if slices.Contains(errorWords, word) {
		return answer{err: word}, nil
	}
	return a, fmt.Errorf("unknown error %q", word)
}

// stateFields returns the fields of the state of a limit after its name: those of every state, and
// those that are left out if they are zero.
func stateFields(s *weir.LimitState) (must, may []field) {
	return []field{{"used", &s.Used}, {"remaining", &s.Remaining}, {"wait", &s.RetryAfter},
			{"next", &s.NextAfter}, {"interval", &s.MinIntervalAfter}, {"reset", &s.ResetAfter}},
		[]field{{"blocked", &s.Blocked}, {"ahead", &s.Ahead}, {"last", &s.LastAhead}}
}

// stateText formats the i-th state as in a vector.
func (a answer) stateText(i int) string {
	if i >= len(a.states) {
		return "nothing"
	}
	s := a.states[i]
	return s.Name + ":" + texts(stateFields(&s))
}

func parseState(words []string) (s weir.LimitState, err error) {
	name, ok := strings.CutSuffix(words[0], ":")
	if !ok {
		return s, fmt.Errorf("unknown word %q; a state begins with the limit's name and a colon", words[0])
	}
	s.Name = name
	must, may := stateFields(&s)
	return s, readAll(words[1:], must, may)
}
