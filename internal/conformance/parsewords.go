package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// splitWords splits a line at spaces outside quotes.
func splitWords(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		n, err := wordLength(rest)
		if err != nil {
			return nil, err
		}
		words = append(words, rest[:n])
		rest = rest[n:]
	}
	return words, nil
}

func wordLength(s string) (int, error) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t':
			return i, nil
		case '"':
			quoted, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return 0, fmt.Errorf("no end to the quote in %s", s)
			}
			i += len(quoted) - 1
		}
	}
	return len(s), nil
}

// parseValue reads a plain word, a quoted one, or "x"*1025.
func parseValue(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		if text == "" || valueText(text) != text {
			return "", fmt.Errorf("quote the value")
		}
		return text, nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", err
	}
	value, err := strconv.Unquote(quoted)
	if err != nil || quoted == text {
		return value, err
	}
	times, err := strconv.Atoi(strings.TrimPrefix(text[len(quoted):], "*"))
	if err != nil || text[len(quoted)] != '*' || times < 0 || times > 1<<16 {
		return "", fmt.Errorf("after the quote only *TIMES is allowed")
	}
	return strings.Repeat(value, times), nil
}

// draft stands for an answer or for states that -rewrite fills in. It equals no answer.
const draft = "?"

// parseAnswer reads the words after the arrow.
func parseAnswer(s step, words []string, epoch int64) (a answer, err error) {
	if len(words) == 0 {
		return a, fmt.Errorf("no answer after the arrow")
	}
	if len(words) == 1 && words[0] == draft {
		return answer{err: draft}, nil
	}
	if word, ok := strings.CutPrefix(words[0], "error="); ok && len(words) == 1 {
		for _, e := range errorWords {
			if e.word == word {
				return answer{err: word}, nil
			}
		}
		return a, fmt.Errorf("unknown error %q", word)
	}
	switch s.op {
	case opReset:
		if len(words) != 1 || words[0] != "done" {
			return a, fmt.Errorf("%q; the answer to a reset is done", words)
		}
		return a, nil
	case opRefund:
		err = readFields(words, []field{{"refunded", &a.units}}, nil)
		return a, err
	case opCount:
		err = readFields(words, []field{{"count", &a.units}}, nil)
		return a, err
	}
	return parseDecision(s, words, epoch)
}

// parseDecision reads allowed|denied granted=… and so on.
func parseDecision(s step, words []string, epoch int64) (a answer, err error) {
	d := &a.decision
	if last := len(words) - 1; last > 0 && words[last] == "repeated" {
		d.Replayed, words = true, words[:last]
	}
	switch words[0] {
	case "allowed", "denied":
		d.Allowed = words[0] == "allowed"
	default:
		return a, fmt.Errorf("unknown word %q; an answer begins with allowed, denied or error=", words[0])
	}
	at := s.at
	must := []field{{"granted", &d.Granted}, {"remaining", &d.Remaining}, {"wait", &d.RetryAfter}, {"reset", &d.ResetAfter}}
	may := []field{{"limit", &d.Limit}, {"at", &at}}
	if err := readFields(words[1:], must, may); err != nil {
		return a, err
	}
	d.At = time.UnixMicro(epoch).Add(at)
	return a, nil
}

func parseState(words []string) (s weir.LimitState, err error) {
	name, ok := strings.CutSuffix(words[0], ":")
	if !ok {
		return s, fmt.Errorf("unknown word %q; a state begins with the limit's name and a colon", words[0])
	}
	s.Name = name
	err = readFields(words[1:], []field{{"used", &s.Used}, {"remaining", &s.Remaining},
		{"wait", &s.RetryAfter}, {"next", &s.NextAfter}, {"gap", &s.MinIntervalAfter}, {"reset", &s.ResetAfter}}, nil)
	return s, err
}

// field is a name=value of an answer. to points to its value: an *int64, a *string or a
// *time.Duration.
type field struct {
	name string
	to   any
}

// readFields reads words into all fields of must, in order, and then any of may.
func readFields(words []string, must, may []field) error {
	for _, f := range must {
		if len(words) == 0 {
			return fmt.Errorf("the answer lacks %s=", f.name)
		}
		value, ok := strings.CutPrefix(words[0], f.name+"=")
		if !ok {
			return fmt.Errorf("%q where %s= belongs", words[0], f.name)
		}
		if err := f.read(value); err != nil {
			return err
		}
		words = words[1:]
	}
	for _, f := range may {
		if len(words) == 0 {
			return nil
		}
		if value, ok := strings.CutPrefix(words[0], f.name+"="); ok {
			if err := f.read(value); err != nil {
				return err
			}
			words = words[1:]
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("unknown word %q in the answer", words[0])
	}
	return nil
}

func (f field) read(value string) (err error) {
	switch to := f.to.(type) {
	case *int64:
		*to, err = strconv.ParseInt(value, 10, 64)
	case *string:
		*to = value
	case *time.Duration:
		if value == "never" && f.name == "wait" {
			*to = weir.Never
		} else {
			*to, err = time.ParseDuration(value)
		}
	}
	return err
}
