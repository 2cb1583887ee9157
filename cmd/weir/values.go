package main

import (
	"cmp"
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

// The types of this file are kinds of values of flags and of settings. Each is a [pflag.Value] that
// points to the variable of an option, which already has its default. String returns a text that
// Set accepts. If Set rejects a text, it changes nothing and returns a *failure. Its message
// continues a sentence that begins with the name of the flag.

// A textValue is a text that check accepts.
type textValue struct {
	to    *string
	check func(text string) error // nil: any text
}

func (v *textValue) Type() string   { return "string" }
func (v *textValue) String() string { return *v.to }

func (v *textValue) Set(text string) error {
	if v.check != nil {
		if err := v.check(text); err != nil {
			return err
		}
	}
	*v.to = text
	return nil
}

// A wordValue is one of several values, each written as a word in lower case.
type wordValue[T any] struct {
	to   *T
	all  []T
	next string // the next step after an unknown word, unless a similar one is permitted
}

// wordOf returns the word for a value.
func wordOf(v any) string { return strings.ToLower(fmt.Sprint(v)) }

func (v *wordValue[T]) Type() string   { return "word" }
func (v *wordValue[T]) String() string { return wordOf(*v.to) }

// words returns the permitted words.
func (v *wordValue[T]) words() []string {
	var words []string
	for _, each := range v.all {
		words = append(words, wordOf(each))
	}
	return words
}

func (v *wordValue[T]) Set(text string) error {
	words := v.words()
	i := slices.Index(words, text)
	if i < 0 {
		last := len(words) - 1
		known := strings.Join(words[:last], ", ") + " or " + words[last]
		return usage(didYouMean(text, words, v.next), "must be %s, not %q", known, text)
	}
	*v.to = v.all[i]
	return nil
}

// An intValue is a whole number from least to most.
type intValue struct {
	to          *int
	least, most int
	next        string // the next step after a wrong number
}

func (v *intValue) Type() string   { return "int" }
func (v *intValue) String() string { return strconv.Itoa(*v.to) }

func (v *intValue) Set(text string) error {
	number, err := strconv.ParseInt(text, 0, 0) // reads 10_000, as YAML and pflag do
	if err != nil {
		return usage(v.next, "takes a whole number of at most %d, not %q", v.most, text)
	}
	if digits := strings.TrimLeft(text, "+-"); len(digits) > 1 && digits[0] == '0' {
		return usage("write a decimal number without a 0 in front",
			"begins with 0, which programs take for another base: %q", text)
	}
	n := int(number)
	if n < v.least && v.most == math.MaxInt {
		return usage(v.next, "must be %d or more, not %d", v.least, n)
	}
	if n < v.least || n > v.most {
		return usage(v.next, "must be %d to %d, not %d", v.least, v.most, n)
	}
	*v.to = n
	return nil
}

// A ratioValue is a number from 0 to 1.
type ratioValue float64

func (v *ratioValue) Type() string   { return "float64" }
func (v *ratioValue) String() string { return fmt.Sprint(float64(*v)) }

func (v *ratioValue) Set(text string) error {
	const next = "0.01 is one of a hundred"
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return usage(next, "takes a number, not %q", text)
	}
	if !(n >= 0 && n <= 1) { // NaN is wrong as well
		return usage(next, "must be 0 to 1, not %v", n)
	}
	*v = ratioValue(n)
	return nil
}

// A boolValue is true or false. The flag alone stands for true.
type boolValue bool

func (v *boolValue) Type() string   { return "bool" }
func (v *boolValue) String() string { return strconv.FormatBool(bool(*v)) }

func (v *boolValue) Set(text string) error {
	is, err := strconv.ParseBool(text)
	if err != nil {
		return wrongBool(text)
	}
	*v = boolValue(is)
	return nil
}

// wrongBool returns the failure for a text that is neither true nor false.
func wrongBool(text string) error {
	return usage("leave it out for false", "takes true or false, not %q", text)
}

// A durationValue is a duration of at least least. A least of 1ns is written as "above 0".
type durationValue struct {
	to    *time.Duration
	least time.Duration
	next  string // the next step after a duration that is too short
}

func (v *durationValue) Type() string   { return "duration" }
func (v *durationValue) String() string { return v.to.String() }

func (v *durationValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		isShort := 0 < *v.to && *v.to < time.Second
		if n, err := strconv.Atoi(text); err == nil && n > 0 && isShort {
			return usage(fmt.Sprintf("did you mean %dms or %ds?", n, n),
				"takes a duration such as %v, not %q", *v.to, text)
		}
		return wrongDuration(text)
	}
	if d < v.least {
		return usage(v.next, "must be %s, not %v", v.bound(), d)
	}
	*v.to = d
	return nil
}

// bound returns the permitted durations in words.
func (v *durationValue) bound() string {
	switch v.least {
	case 0:
		return "0 or more"
	case 1:
		return "above 0"
	}
	return v.least.String() + " or more"
}

// wrongDuration returns the failure for a text that is not a duration.
func wrongDuration(text string) error {
	next := "write a number and a unit: ms, s, m or h"
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		next = fmt.Sprintf("did you mean %ds?", n)
	}
	return usage(next, "takes a duration such as 10s, not %q", text)
}

// A namesValue is a list of host names, in the notation of YAML. Each call of Set adds one.
type namesValue []string

func (v *namesValue) Type() string   { return "names" }
func (v *namesValue) String() string { return "[" + strings.Join(*v, ", ") + "]" }

func (v *namesValue) Set(text string) error {
	if _, err := listen.ParseNames(text); err != nil {
		return usage("write the name alone, such as weir.example.com, without a port or a scheme",
			"takes the name of a host, not %q", text)
	}
	*v = append(*v, text)
	return nil
}

// A modeValue is the permissions of a socket, 1 to 0777, as chmod reads them.
type modeValue fs.FileMode

func (v *modeValue) Type() string   { return "mode" }
func (v *modeValue) String() string { return fmt.Sprintf("%#04o", uint32(*v)) }

func (v *modeValue) Set(text string) error {
	bits, err := strconv.ParseUint(text, 8, 32)
	if err != nil || bits == 0 || bits > 0o777 {
		return usage("with 0660 the user and the group of weir can connect",
			"must be an octal mode such as 0660, not %q", text)
	}
	*v = modeValue(bits)
	return nil
}

// minSize is the smallest permitted size. With fewer bytes nearly every key would be rejected.
const minSize = 1 << 20

// A sizeValue is a number of bytes, minSize or more, written as digits with or without KiB, MiB
// or GiB. 0 means that no size is set.
type sizeValue int64

func (v *sizeValue) Type() string   { return "size" }
func (v *sizeValue) String() string { return sizeText(int64(*v)) }

func (v *sizeValue) Set(text string) error {
	n, ok := parseSize(text)
	if !ok {
		return usage(didYouMeanSize(text), "must be a size of 1MiB or more, not %q", text)
	}
	*v = sizeValue(n)
	return nil
}

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

// parseSize returns the number of bytes that a text such as 512MiB means, and whether the text
// is valid.
func parseSize(text string) (bytes int64, ok bool) {
	for _, u := range sizeUnits {
		if digits, found := strings.CutSuffix(text, u.name); found {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil || n > math.MaxInt64/u.bytes {
				return 0, false
			}
			return n * u.bytes, n*u.bytes >= minSize
		}
	}
	return 0, false
}

// didYouMeanSize returns the next step for a text that is not a size.
func didYouMeanSize(text string) string {
	digits := strings.TrimRight(text, "KkMmGgiIBb ")
	unit := "MiB"
	bytes := int64(1 << 20)
	if strings.ContainsAny(text, "Gg") {
		unit = "GiB"
		bytes = 1 << 30
	}
	// A number above 32,767 is probably a number of bytes.
	if n, err := strconv.ParseInt(digits, 10, 16); err == nil && n > 0 {
		return fmt.Sprintf("did you mean %d%s?", n, unit)
	}
	if n, err := strconv.ParseFloat(digits, 64); err == nil && n > 0 && n < 1<<15 {
		return fmt.Sprintf("did you mean %s?", sizeText(int64(n*float64(bytes))>>20<<20))
	}
	return "write a whole number with KiB, MiB or GiB, such as 512MiB"
}

// A shareValue is N for a share of 1/N, written as 1/N, or as 1 for all.
type shareValue int64

func (v *shareValue) Type() string   { return "share" }
func (v *shareValue) String() string { return shareText(int64(*v)) }

func (v *shareValue) Set(text string) error {
	digits, isShare := strings.CutPrefix(text, "1/")
	n, err := strconv.ParseInt(digits, 10, 64)
	inRange := err == nil && n >= 1 && n <= weir.MaxUnits
	if !inRange || n > 1 && !isShare {
		return usage("write 1/10 for one of ten keys, or 1 for all",
			"must be a share, not %q", text)
	}
	*v = shareValue(n)
	return nil
}

// shareText returns 1/N, or 1 for all.
func shareText(n int64) string {
	if n <= 1 {
		return "1"
	}
	return "1/" + strconv.FormatInt(n, 10)
}

// A parsedValue is a flag whose texts parse reads. It may be given several times. It keeps all
// texts, so that a suggested command can repeat them.
type parsedValue struct {
	parse    func(text string) error
	standard string   // the default in the help
	texts    []string // as given
}

func (v *parsedValue) Type() string { return "func" }

func (v *parsedValue) String() string {
	return cmp.Or(strings.Join(v.texts, ","), v.standard)
}

func (v *parsedValue) Set(text string) error {
	if err := v.parse(text); err != nil {
		return err
	}
	v.texts = append(v.texts, text)
	return nil
}

// setTo returns a function that parses a text and stores the result in to.
func setTo[T any](to *T, parse func(text string) (T, error)) func(text string) error {
	return func(text string) (err error) {
		*to, err = parse(text)
		return err
	}
}

// appendTo returns a function that parses a text and appends the result to a list.
func appendTo[T any](to *[]T, parse func(text string) (T, error)) func(text string) error {
	return func(text string) error {
		one, err := parse(text)
		if err != nil {
			return err
		}
		*to = append(*to, one)
		return nil
	}
}

// appendEach returns a function that splits a text at commas, parses the parts and appends the
// results to a list.
func appendEach[T any](to *[]T, parse func(text string) (T, error)) func(text string) error {
	add := appendTo(to, parse)
	return func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			if err := add(strings.TrimSpace(part)); err != nil {
				return err
			}
		}
		return nil
	}
}

// repeatFlags returns the named flags that are given, as arguments for a shell.
func repeatFlags(cmd *cobra.Command, names ...string) string {
	line := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			return
		}
		if f.Value.Type() == "bool" { // --flag false would be true, and false an argument
			line += " --" + f.Name + "=" + f.Value.String()
			return
		}
		texts := []string{f.Value.String()}
		if parsed, ok := f.Value.(*parsedValue); ok {
			texts = parsed.texts
		}
		for _, text := range texts {
			line += " --" + f.Name + " " + quoteForShell(text)
		}
	})
	return line
}

// rejectStream rejects -, because a recording needs a file.
func rejectStream(text string) error {
	if text == "-" {
		return usage("choose a file, or write ./- for one of that name", "- is no name of a file")
	}
	return nil
}

// checkHeaderField checks the name of the header field that identifies a request.
func checkHeaderField(text string) error {
	if strings.EqualFold(text, "Host") {
		return usage("X-Request-Id is one", "takes a field that differs between requests, not Host")
	}
	const lower = "abcdefghijklmnopqrstuvwxyz"
	const others = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	if text == "" || strings.Trim(text, lower+others) != "" {
		return usage("write letters, digits and dashes alone, such as X-Request-Id",
			"takes the name of a header field, not %q", text)
	}
	return nil
}

// checkCollector checks the URL of a collector of OpenTelemetry.
func checkCollector(text string) error {
	if _, err := otlp.ParseURL(text); err != nil {
		problem, next, _ := strings.Cut(err.Error(), "; ")
		return usage(next, "%s", problem)
	}
	return nil
}

// checkListenAddress checks an address to listen on. It does not resolve names.
func checkListenAddress(text string) error {
	path, isUnix := strings.CutPrefix(text, "unix:")
	_, _, err := net.SplitHostPort(text)
	if isUnix && path != "" || !isUnix && err == nil {
		return nil
	}
	return usage(addressHint(text), "must be an address, not %q", text)
}

// addressHint returns the next step for a text that is not an address to listen on.
func addressHint(text string) string {
	if _, address, isURL := strings.Cut(text, "://"); isURL {
		return "write the address alone: " + strings.TrimSuffix(address, "/")
	}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil { // a port
		return "write 127.0.0.1:" + text + ", or 0.0.0.0:" + text + " for all addresses"
	}
	if filepath.IsAbs(text) {
		return "write unix:" + text
	}
	if _, err := listen.ParseNames(text); err == nil {
		return "write " + text + ":7070"
	}
	return "write host:port or unix:/path, such as 127.0.0.1:7070"
}

// checkStoreName checks the name or the URL of a store.
func checkStoreName(text string) error {
	if _, err := store.Describe(text); err != nil {
		problem := strings.TrimPrefix(err.Error(), store.ErrURL.Error()+": ")
		return usage("weir serve -h shows the values of --store", "names no store: %s", problem)
	}
	return nil
}
