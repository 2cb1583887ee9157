package conformance

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// field is a value in a vector. It is written name=value, or as value alone if it has no
// name. to points to the value.
type field struct {
	name string
	to   any // *int64, *actual, *int, *string, *[]string, *time.Duration, *weir.Mode, *weir.Kind or *weir.Period
}

// actual is the units of a settlement. engine.AllUnits is written as all.
type actual int64

var (
	modeWords   = []string{"all", "partial", "denied"}                                      // in the order of weir.Mode
	kindWords   = []string{"rolling", "fixed", "fixed_from_first", "bucket", "concurrency"} // in the order of weir.Kind
	periodWords = []string{"none", "hour", "day", "week", "month"}                          // in the order of weir.Period
)

// read parses the value.
func (f field) read(value string) (err error) {
	switch to := f.to.(type) {
	case *int64:
		*to, err = strconv.ParseInt(value, 10, 64)
	case *actual:
		if *to = actual(engine.AllUnits); value != "all" {
			err = field{"", (*int64)(to)}.read(value)
		}
	case *int:
		*to, err = strconv.Atoi(value)
	case *string:
		*to = value
	case *[]string:
		*to = strings.Split(value, ",")
	case *time.Duration:
		switch {
		case (f.name == "wait" || f.name == "maxwait") && value == "never":
			*to = weir.Never
		case f.name == "from" && value == "oldest":
			*to = oldest
		default:
			*to, err = time.ParseDuration(value)
		}
	case *weir.Mode:
		*to, err = readWord[weir.Mode](f.name, value, modeWords)
	case *weir.Kind:
		*to, err = readWord[weir.Kind](f.name, value, kindWords)
	case *weir.Period:
		*to, err = readWord[weir.Period](f.name, value, periodWords)
	}
	return err
}

// readWord returns the constant that is written as value.
func readWord[T weir.Mode | weir.Kind | weir.Period](name, value string, words []string) (T, error) {
	i := slices.Index(words, value)
	if i < 0 {
		return 0, fmt.Errorf("%q is not a %s; use %s", name+"="+value, name, strings.Join(words, ", "))
	}
	return T(i), nil
}

// text formats the field.
func (f field) text() string {
	var value string
	switch to := f.to.(type) {
	case *[]string:
		value = strings.Join(*to, ",")
	case *time.Duration:
		switch value = spanText(*to); {
		case *to == weir.Never:
			value = "never"
		case f.name == "from" && *to == oldest:
			value = "oldest"
		}
	case *actual:
		if value = "all"; *to != actual(engine.AllUnits) {
			value = fmt.Sprint(int64(*to))
		}
	case *weir.Mode:
		value = modeWords[*to]
	case *weir.Kind:
		value = kindWords[*to]
	case *weir.Period:
		value = periodWords[*to]
	default:
		value = fmt.Sprint(reflect.ValueOf(to).Elem())
	}
	return f.prefix() + value
}

// prefix returns the text before the value.
func (f field) prefix() string {
	if f.name == "" {
		return ""
	}
	return f.name + "="
}

// texts formats all of must, and those of may that are not zero, each after a space.
func texts(must, may []field) string {
	var b strings.Builder
	for i, f := range slices.Concat(must, may) {
		if i < len(must) || !reflect.ValueOf(f.to).Elem().IsZero() {
			b.WriteString(" " + f.text())
		}
	}
	return b.String()
}

// readFields parses words as all of must, in order, and then any of may, in order. It
// returns the other words.
func readFields(words []string, must, may []field) (rest []string, err error) {
	for i, f := range slices.Concat(must, may) {
		next := ""
		if len(words) > 0 {
			next = words[0]
		}
		value, found := strings.CutPrefix(next, f.prefix())
		switch {
		case found && next != "":
			if err := f.read(value); err != nil {
				return nil, err
			}
			words = words[1:]
		case i < len(must):
			return nil, fmt.Errorf("%q where %s belongs", next, cmp.Or(f.prefix(), "a number or a name"))
		}
	}
	return words, nil
}

// readAll is readFields of words that hold nothing else.
func readAll(words []string, must, may []field) error {
	rest, err := readFields(words, must, may)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unknown word %q", rest[0])
	}
	return err
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
