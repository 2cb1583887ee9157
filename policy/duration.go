package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// lengths are the units of a length, the smallest first.
var lengths = []struct {
	suffix string
	length time.Duration
}{
	{"us", time.Microsecond},
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", day},
}

// windows are the windows with a name.
var windows = []struct {
	name   string
	length time.Duration
}{
	{"second", time.Second},
	{"minute", time.Minute},
	{"hour", time.Hour},
	{"day", day},
	{"week", 7 * day},
}

// FormatDuration writes d in the words of the file: one number with the largest unit that
// keeps it whole, such as 250ms, 90s, 24h, 7d. Fractions of a microsecond are cut off.
func FormatDuration(d time.Duration) string {
	d -= d % time.Microsecond
	for i := len(lengths) - 1; i >= 0; i-- {
		unit := lengths[i]
		if unit.length == day && d == day {
			continue // 24h is the usual form
		}
		if d != 0 && d%unit.length == 0 {
			return strconv.FormatInt(int64(d/unit.length), 10) + unit.suffix
		}
	}
	return "0s"
}

// ParseDuration reads a length such as 250ms, 90s, 30m, 24h or 7d: one whole
// number, in which _ may group digits, and one of us, ms, s, m, h, d.
func ParseDuration(s string) (time.Duration, error) {
	d, ok := parseLength(s)
	if !ok {
		return 0, fmt.Errorf("%s is not a length; %s", clip(s), useLength)
	}
	return d, nil
}

const (
	useLength = "use one such as 250ms, 90s, 30m, 24h, 7d"
	useWindow = "use second, minute, hour, day, week, or a length such as 90s, 30m, 24h"
)

// parseLength is ParseDuration without the error text. A length above the largest
// time.Duration becomes that, which every range check rejects.
func parseLength(s string) (time.Duration, bool) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	n, problem := parseNumber(digits)
	if problem != "" {
		return 0, false
	}
	for _, unit := range lengths {
		if unit.suffix != s[len(digits):] {
			continue
		}
		if n > math.MaxInt64/int64(unit.length) {
			return math.MaxInt64, true
		}
		return time.Duration(n) * unit.length, true
	}
	return 0, false
}

// parseWindow reads the name of a window, or a length.
func parseWindow(s string) (time.Duration, bool) {
	for _, w := range windows {
		if w.name == s {
			return w.length, true
		}
	}
	return parseLength(s)
}

// looksLikeWindow reports whether s is a window or its plural, which is no name for a key.
func looksLikeWindow(s string) bool {
	_, is := parseWindow(strings.TrimSuffix(s, "s"))
	_, isLength := parseLength(s)
	return is || isLength
}

// formatWindow writes a window by its name, or as a length.
func formatWindow(d time.Duration) string {
	for _, w := range windows {
		if w.length == d {
			return w.name
		}
	}
	return FormatDuration(d)
}

func namesOfWindows() []string {
	all := make([]string, len(windows))
	for i, w := range windows {
		all[i] = w.name
	}
	return all
}
