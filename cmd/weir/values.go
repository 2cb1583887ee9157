package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/otlp"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
)

// A value is the value of a setting, a pflag.Value that checks the values that it gets.
type value struct {
	kind        string   // string, word, names, bool, int, float64, duration, size, share or mode
	words       []string // kind word: the permitted ones
	least, most int      // kind int: the bounds; kind duration: least is 0 if 0 is permitted
	next        string   // the step after a wrong value, unless its error has one

	set func(text string) error
	get func() string
}

// newValue sets to to the default and returns its value, with the fields of is. An error of
// parse that is no *failure is that of the kind. The messages of both go on from the name of the
// flag. show is the inverse of parse.
func newValue[T any](to *T, standard T, is value, parse func(text string) (T, error), show func(T) string) *value {
	*to = standard
	is.get = func() string { return show(*to) }
	is.set = func(text string) error {
		parsed, err := parse(text)
		wrong := new(failure)
		switch {
		case err == nil:
			*to = parsed
			return nil
		case !errors.As(err, &wrong):
			errors.As(misread(is.kind, text), &wrong)
		}
		wrong.next = cmp.Or(wrong.next, is.next)
		return wrong
	}
	return &is
}

// shownAsIs is the inverse of parsing for values in the form of package fmt.
func shownAsIs[T any](v T) string { return fmt.Sprint(v) }

// Type returns the name of the type in the help.
func (v *value) Type() string { return v.kind }

// String returns the value in the form that Set reads.
func (v *value) String() string { return v.get() }

// Set reads a value. The error is a *failure, and a wrong value changes nothing.
func (v *value) Set(text string) error { return v.set(text) }

// addParsed adds a flag with values that parse reads. standard is the default in the help.
func addParsed(cmd *cobra.Command, name, short, standard, help string, parse func(text string) error) {
	cmd.Flags().FuncP(name, short, help, parse)
	cmd.Flags().Lookup(name).DefValue = standard
}

// remembered is a value that notes each text that it reads.
type remembered struct {
	pflag.Value
	note func(text string)
}

func (r remembered) Set(text string) error {
	r.note(text)
	return r.Value.Set(text)
}

// remember appends flags to a command line as they are given.
func remember(cmd *cobra.Command, line *string, flags ...string) {
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		between := " "
		if f.NoOptDefVal != "" { // of a boolean flag
			between = "="
		}
		f.Value = remembered{f.Value, func(text string) { *line += " --" + name + between + quoted(text) }}
	}
}

// setTo returns a function that sets to to a parsed text.
func setTo[T any](to *T, parse func(text string) (T, error)) func(text string) error {
	return func(text string) (err error) {
		*to, err = parse(text)
		return err
	}
}

// appendTo returns a function that appends a parsed text to a list.
func appendTo[T any](to *[]T, parse func(text string) (T, error)) func(text string) error {
	return func(text string) error {
		one, err := parse(text)
		*to = append(*to, one)
		return err
	}
}

// appendEach returns a function that appends the parts of a text between commas to a list.
func appendEach[T any](to *[]T, parse func(text string) (T, error)) func(text string) error {
	add := appendTo(to, parse)
	return func(text string) (err error) {
		for part := range strings.SplitSeq(text, ",") {
			err = cmp.Or(err, add(strings.TrimSpace(part)))
		}
		return err
	}
}

// textValue is a text that check accepts.
func textValue(to *string, standard string, check func(text string) error) *value {
	return newValue(to, standard, value{kind: "string"}, func(text string) (string, error) { return text, check(text) }, shownAsIs)
}

func anyText(string) error { return nil }

// isNoStream rejects -, which is no file here.
func isNoStream(text string) error {
	if text == "-" {
		return usage("choose a file, or write ./- for one of that name", "- is no name of a file")
	}
	return nil
}

// isField checks the name of a header field that an answer has or that holds an id.
func isField(text string) error {
	if strings.EqualFold(text, "Host") {
		return usage("X-Request-Id is one", "takes a field that differs between requests, not Host")
	}
	const letters = "abcdefghijklmnopqrstuvwxyz"
	if text == "" || strings.Trim(text, letters+"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
		return usage("write letters, digits and dashes alone, such as X-Request-Id", "takes the name of a header field, not %q", text)
	}
	return nil
}

// isCollector checks the URL of an OpenTelemetry collector.
func isCollector(text string) error {
	if _, err := otlp.ParseURL(text); err != nil {
		problem, next, _ := strings.Cut(err.Error(), "; ")
		return usage(next, "%s", problem)
	}
	return nil
}

// isAddress checks an address to listen on. A name in it is resolved when weir listens.
func isAddress(text string) error {
	path, unix := strings.CutPrefix(text, "unix:")
	if _, _, err := net.SplitHostPort(text); err != nil && !unix || unix && path == "" {
		return usage(nextAddress(text), "must be an address, not %q", text)
	}
	return nil
}

// nextAddress returns the next step for a text that is no address to listen on.
func nextAddress(text string) string {
	_, meant, isURL := strings.Cut(text, "://")
	_, notNumber := strconv.ParseUint(text, 10, 16)
	_, notName := listen.ParseNames(text)
	switch {
	case isURL:
		return "write the address alone: " + strings.TrimSuffix(meant, "/")
	case notNumber == nil:
		return "write 127.0.0.1:" + text + ", or 0.0.0.0:" + text + " for all addresses"
	case filepath.IsAbs(text):
		return "write unix:" + text
	case notName == nil:
		return "write " + text + ":7070"
	}
	return "write host:port or unix:/path, such as 127.0.0.1:7070"
}

// isStore checks the name or the URL of a store.
func isStore(text string) error {
	if _, err := store.Describe(text); err != nil {
		return usage("weir serve -h shows the values of --store", "names no store: %s", strings.TrimPrefix(err.Error(), store.ErrURL.Error()+": "))
	}
	return nil
}

// wordValue is one of some values, which are written as words in lower case.
func wordValue[T any](to *T, standard T, next string, all ...T) *value {
	word := func(v T) string { return strings.ToLower(fmt.Sprint(v)) }
	var words []string
	for _, each := range all {
		words = append(words, word(each))
	}
	return newValue(to, standard, value{kind: "word", words: words, next: next}, func(text string) (T, error) {
		if i := slices.Index(words, text); i >= 0 {
			return all[i], nil
		}
		last := len(words) - 1
		return standard, usage(didYouMean(text, words, ""), "must be %s or %s, not %q", strings.Join(words[:last], ", "), words[last], text)
	}, word)
}

// intValue is a whole number from least to most.
func intValue(to *int, standard, least, most int, next string) *value {
	return newValue(to, standard, value{kind: "int", least: least, most: most, next: next}, func(text string) (int, error) {
		number, err := strconv.ParseInt(text, 0, 0) // reads 10_000, as YAML and pflag do
		n := int(number)
		switch digits := strings.TrimLeft(text, "+-"); {
		case err != nil:
		case len(digits) > 1 && digits[0] == '0':
			err = usage("write a decimal number without a 0 in front", "begins with 0, which programs take for another base: %q", text)
		case n < least && most == math.MaxInt:
			err = usage("", "must be %d or more, not %d", least, n)
		case n < least || n > most:
			err = usage("", "must be %d to %d, not %d", least, most, n)
		}
		return n, err
	}, shownAsIs)
}

// ratioValue is a number from 0 to 1.
func ratioValue(to *float64, standard float64) *value {
	return newValue(to, standard, value{kind: "float64", next: "0.01 is one of a hundred"}, func(text string) (float64, error) {
		n, err := strconv.ParseFloat(text, 64)
		if err == nil && !(n >= 0 && n <= 1) {
			err = usage("", "must be 0 to 1, not %v", n)
		}
		return n, err
	}, shownAsIs)
}

func boolValue(to *bool) *value {
	return newValue(to, false, value{kind: "bool", next: "leave it out for false"}, strconv.ParseBool, shownAsIs)
}

// durationValue is a duration of least or more. The least of those above 0 is 1.
func durationValue(to *time.Duration, standard, least time.Duration, next string) *value {
	bound := cmp.Or(map[time.Duration]string{0: "0 or more", 1: "above 0"}[least], least.String()+" or more")
	return newValue(to, standard, value{kind: "duration", least: int(min(least, 1)), next: next}, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		n, unitless := strconv.Atoi(text)
		switch {
		case err != nil && unitless == nil && n > 0 && 0 < standard && standard < time.Second:
			err = usage(fmt.Sprintf("did you mean %dms or %ds?", n, n), "takes a duration such as %v, not %q", standard, text)
		case err == nil && d < least:
			err = usage("", "must be %s, not %v", bound, d)
		}
		return d, err
	}, shownAsIs)
}

// misread returns the error of a text that is not of a type of pflag, nil for other types.
func misread(kind, text string) error {
	switch kind {
	case "duration":
		next := "write a number and a unit: ms, s, m or h"
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			next = fmt.Sprintf("did you mean %ds?", n)
		}
		return usage(next, "takes a duration such as 10s, not %q", text)
	case "int", "int64":
		return usage("", "takes a whole number of at most %d, not %q", int64(math.MaxInt64), text)
	case "float64":
		return usage("", "takes a number, not %q", text)
	case "bool":
		return usage("", "takes true or false, not %q", text)
	}
	return nil
}

// namesValue is a list of names of hosts, as YAML. Each Set adds one.
func namesValue(to *[]string) *value {
	return newValue(to, nil, value{kind: "names"}, func(text string) ([]string, error) {
		if _, err := listen.ParseNames(text); err != nil {
			return nil, usage("write the name alone, such as weir.example.com, without a port or a scheme", "takes the name of a host, not %q", text)
		}
		return append(*to, text), nil
	}, func(names []string) string { return "[" + strings.Join(names, ", ") + "]" })
}

// modeValue is the permissions of a file, 1 to 0777, as chmod reads them.
func modeValue(to *fs.FileMode, standard fs.FileMode, next string) *value {
	return newValue(to, standard, value{kind: "mode", next: next}, func(text string) (fs.FileMode, error) {
		bits, err := strconv.ParseUint(text, 8, 32)
		if err != nil || bits == 0 || bits > 0o777 {
			return 0, usage("", "must be an octal mode such as 0660, not %q", text)
		}
		return fs.FileMode(bits), nil
	}, func(mode fs.FileMode) string { return fmt.Sprintf("%#04o", uint32(mode)) })
}

// minSize is the least size: fewer bytes would reject nearly every key.
const minSize = 1 << 20

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// sizeText returns a number of bytes in the form that parseSize reads, "" for 0.
func sizeText(n int64) string {
	for _, u := range sizeUnits {
		if n > 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return ""
}

// sizeValue is a number of bytes, minSize or more, written as digits with or without KiB, MiB
// or GiB. 0 stands for no size.
func sizeValue(to *int64, standard int64) *value {
	return newValue(to, standard, value{kind: "size"}, parseSize, sizeText)
}

func parseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > math.MaxInt64/u.bytes || n*u.bytes < minSize {
			break
		}
		return n * u.bytes, nil
	}
	return 0, usage(didYouMeanSize(text), "must be a size of 1MiB or more, not %q", text)
}

// didYouMeanSize returns the next step for a text that is not a size.
func didYouMeanSize(text string) string {
	digits := strings.TrimRight(text, "KkMmGgiIBb ")
	unit, bytes := "MiB", int64(1<<20)
	if strings.ContainsAny(text, "Gg") {
		unit, bytes = "GiB", 1<<30
	}
	if n, err := strconv.ParseInt(digits, 10, 16); err == nil && n > 0 { // a larger one is a number of bytes
		return fmt.Sprintf("did you mean %d%s?", n, unit)
	}
	if n, err := strconv.ParseFloat(digits, 64); err == nil && n > 0 && n < 1<<15 {
		return fmt.Sprintf("did you mean %s?", sizeText(int64(n*float64(bytes))>>20<<20))
	}
	return "write a whole number with KiB, MiB or GiB, such as 512MiB"
}

// shareText returns a share in the form that parseSample reads: 1/N, or 1 for all.
func shareText(n int64) string {
	if n <= 1 {
		return "1"
	}
	return "1/" + strconv.FormatInt(n, 10)
}

// shareValue is one of so many.
func shareValue(to *int64, standard int64) *value {
	return newValue(to, standard, value{kind: "share"}, parseSample, shareText)
}

func parseSample(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "1/"), 10, 64)
	if err != nil || n < 1 || n > weir.MaxUnits || n > 1 && !strings.HasPrefix(text, "1/") {
		return 0, usage("write 1/10 for one of ten keys, or 1 for all", "must be a share, not %q", text)
	}
	return n, nil
}
