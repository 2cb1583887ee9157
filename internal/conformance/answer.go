package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// answer is the result of one step.
type answer struct {
	err      string            // one of errorWords or the text of an unknown error; "" = none
	decision weir.Decision     // set by take, peek and record
	states   []weir.LimitState // set by take, peek and record with states
	units    int64             // set by refund and count
	reset    []string          // set by reset: the names of the limits
}

// errorWords are the words of a vector for the errors that it may expect: fields of bad
// input, and two states of a store.
var errorWords = []string{"units", "key", "instant", "limit", "span", "kind", "id", "overflow", "full"}

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

// fields returns the fields of the answer to an operation: those of every answer, and
// those that are left out if they are zero.
func (a *answer) fields(op string) (must, may []field) {
	switch op {
	case opReset:
		return []field{{"reset", &a.reset}}, nil
	case opRefund:
		return []field{{"refunded", &a.units}}, nil
	case opCount:
		return []field{{"count", &a.units}}, nil
	}
	d := &a.decision
	return []field{{"granted", &d.Granted}, {"remaining", &d.Remaining}, {"wait", &d.RetryAfter}, {"reset", &d.ResetAfter}},
		[]field{{"limit", &d.Limit}}
}

// text formats the answer to s as in a vector, without states. Instants are relative to
// epoch.
func (a answer) text(s step, epoch int64) string {
	if a.err != "" {
		return "error=" + a.err
	}
	d, fields := a.decision, texts(a.fields(s.op))
	switch {
	case !s.decides():
		return fields[1:]
	case d.Allowed:
		fields = "allowed" + fields
	default:
		fields = "denied" + fields
	}
	if at := d.At.Sub(time.UnixMicro(epoch)); at != s.at {
		fields += " " + field{"at", &at}.text()
	}
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
	must, may := a.fields(s.op)
	at, d := s.at, &a.decision
	if s.decides() {
		d.Allowed = words[0] == "allowed"
		if !d.Allowed && words[0] != "denied" {
			return a, fmt.Errorf("unknown word %q; an answer begins with allowed, denied or error=", words[0])
		}
		words = words[1:]
		may = append(may, field{"at", &at})
		if last := len(words) - 1; last >= 0 && words[last] == "replayed" {
			d.Replayed, words = true, words[:last]
		}
	}
	err = readAll(words, must, may)
	if s.decides() {
		d.At = time.UnixMicro(epoch).Add(at)
	}
	return a, err
}

// parseError parses the word of an error.
func parseError(word string) (a answer, err error) {
	if slices.Contains(errorWords, word) {
		return answer{err: word}, nil
	}
	return a, fmt.Errorf("unknown error %q", word)
}

// stateFields returns the fields of the state of a limit after its name.
func stateFields(s *weir.LimitState) []field {
	return []field{{"used", &s.Used}, {"remaining", &s.Remaining},
		{"wait", &s.RetryAfter}, {"next", &s.NextAfter}, {"interval", &s.MinIntervalAfter}, {"reset", &s.ResetAfter}}
}

// stateText formats the i-th state as in a vector.
func (a answer) stateText(i int) string {
	if i >= len(a.states) {
		return "nothing"
	}
	s := a.states[i]
	return s.Name + ":" + texts(stateFields(&s), nil)
}

func parseState(words []string) (s weir.LimitState, err error) {
	name, ok := strings.CutSuffix(words[0], ":")
	if !ok {
		return s, fmt.Errorf("unknown word %q; a state begins with the limit's name and a colon", words[0])
	}
	s.Name = name
	err = readAll(words[1:], stateFields(&s), nil)
	return s, err
}
