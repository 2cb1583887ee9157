package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weirlimit/weir/internal/nearest"
)

// otherNames maps flags of other programs to those of weir.
var otherNames = map[string]string{
	"port": "listen", "p": "listen", "addr": "listen", "address": "listen", "bind": "listen",
	"config": "policies", "file": "policies", "redis": "store", "maxmemory": "max-memory", "count": "units",
}

// wrongFlag returns the failure for an error of pflag.
func wrongFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		next := cmd.CommandPath() + " -h shows the flags"
		if name := didYouMeanFlag(cmd, unknown.GetSpecifiedName()); name != "" {
			next = "did you mean --" + name + "?"
		}
		return usage(next, "%w", err)
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return wrongValue(invalid)
	}
	return usage(cmd.CommandPath()+" -h shows the flags", "%w", err)
}

// didYouMeanFlag returns the flag of cmd that an unknown name probably means, or "".
func didYouMeanFlag(cmd *cobra.Command, typed string) string {
	if name := otherNames[typed]; cmd.Flags().Lookup(name) != nil {
		return name
	}
	if len(typed) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return nearest.Name(typed, names)
}

// wrongValue returns the failure for a value that is not of its flag's type.
func wrongValue(e *pflag.InvalidValueError) error {
	name, text := "--"+e.GetFlag().Name, e.GetValue()
	if short := e.GetFlag().Shorthand; short != "" {
		name = "-" + short + ", " + name
	}
	number, notWhole := strconv.Atoi(text)
	switch e.GetFlag().Value.Type() {
	case "duration":
		next := "write a number and a unit: ms, s, m or h"
		if notWhole == nil && number > 0 {
			next = fmt.Sprintf("did you mean --%s %ds?", e.GetFlag().Name, number)
		}
		return usage(next, "%s takes a duration such as 10s, not %q", name, text)
	case "int", "int64":
		return usage("", "%s takes a whole number of at most %d, not %q", name, math.MaxInt64, text)
	case "float64":
		return usage("", "%s takes a number, not %q", name, text)
	case "bool":
		return usage("", "%s takes true or false, not %q", name, text)
	}
	return usage("", "%s: %w", name, e.Unwrap())
}

// minSize is the least value of --max-memory: fewer bytes would reject nearly
// every key.
const minSize = 1 << 20

// size is the value of a flag: bytes, minSize or more, written as digits with or
// without KiB, MiB or GiB.
type size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// String returns the size in the form that Set reads.
func (s *size) String() string {
	for _, u := range sizeUnits {
		if *s > 0 && int64(*s)%u.bytes == 0 {
			return strconv.FormatInt(int64(*s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set reads a size.
func (s *size) Set(text string) error {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > math.MaxInt64/u.bytes || n*u.bytes < minSize {
			break
		}
		*s = size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size of 1MiB or more; %s", text, didYouMeanSize(text))
}

// didYouMeanSize returns the next step for a text that is not a size.
func didYouMeanSize(text string) string {
	digits := strings.TrimRight(text, "KkMmGgiIBb ")
	if n, err := strconv.ParseInt(digits, 10, 32); err == nil && n > 0 {
		unit := "MiB"
		if strings.ContainsAny(text, "Gg") {
			unit = "GiB"
		}
		return fmt.Sprintf("did you mean %d%s?", n, unit)
	}
	return "write a whole number with KiB, MiB or GiB, such as 512MiB"
}

// Type returns the name of the type in the help.
func (s *size) Type() string { return "size" }
