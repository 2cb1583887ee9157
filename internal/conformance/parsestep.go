package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseQuestion reads @INSTANT OP … up to the arrow.
func parseQuestion(words []string) (s step, err error) {
	if len(words) < 2 {
		return s, fmt.Errorf("no operation behind %s", words[0])
	}
	if s.at, err = time.ParseDuration(words[0][1:]); err != nil {
		return s, err
	}
	s.op = words[1]
	rest := words[2:]
	next := func() string {
		if len(rest) == 0 {
			return ""
		}
		word := rest[0]
		rest = rest[1:]
		return word
	}
	switch s.op {
	case opTake, opPeek, opRecord:
		s.n, err = strconv.ParseInt(next(), 10, 64)
	case opRefund:
		if s.n, err = strconv.ParseInt(next(), 10, 64); err == nil {
			s.from, err = parseField(next(), "from")
		}
	case opCount:
		s.limit = next()
		s.last, err = parseField(next(), "last")
	case opReset:
	default:
		err = fmt.Errorf("unknown word %q; use take, peek, record, refund, count or reset", s.op)
	}
	if err == nil && s.takesID() && len(rest) > 0 && strings.HasPrefix(rest[0], "#") {
		s.id, err = parseValue(next()[1:])
	}
	if err == nil {
		s.key, err = parseKey(rest)
	}
	return s, err
}

// parseField reads name=DURATION.
func parseField(word, name string) (time.Duration, error) {
	value, ok := strings.CutPrefix(word, name+"=")
	if !ok {
		return 0, fmt.Errorf("%q where %s=DURATION belongs", word, name)
	}
	return time.ParseDuration(value)
}

func parseKey(words []string) (key []keyPart, err error) {
	for _, word := range words {
		dim, text, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("unknown word %q; a key is DIM=VALUE", word)
		}
		value, err := parseValue(text)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", dim, text, err)
		}
		key = append(key, keyPart{dim, value})
	}
	return key, nil
}
