package policy

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/duration"
)

const day = 24 * time.Hour

// namedLength is a window with its name in the file.
type namedLength struct {
	name   string
	length time.Duration
}

// windows are the windows with a name. A month is a window of the calendar only.
var windows = []namedLength{
	{"second", time.Second},
	{"minute", time.Minute},
	{"hour", time.Hour},
	{"day", day},
	{"week", 7 * day},
	{"month", weir.Month.Length()},
}

const (
	useLength = "use one such as 250ms, 90s, 30m, 24h, 7d"
	useWindow = "use second, minute, hour, day, week, month (with fixed), " +
		"or a length such as 90s, 30m, 24h"
)

// maxLength is the largest number of bytes of a length of time. It is also that of names,
// so that a longer word is neither, and no error repeats it whole.
const maxLength = 64

// parseLength reads a length such as 250ms, 90s, 30m, 24h or 7d: one whole number, in which
// _ may group digits, and one of us, ms, s, m, h, d. A length above the largest
// time.Duration becomes that, which every range check rejects.
func parseLength(s string) (time.Duration, bool) {
	if len(s) > maxLength {
		return 0, false
	}
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	n, problem := parseNumber(digits)
	unit := slices.IndexFunc(duration.Units,
		func(u duration.Unit) bool { return u.Name == s[len(digits):] })
	switch {
	case problem != "" || unit < 0:
		return 0, false
	case n > math.MaxInt64/int64(duration.Units[unit].Length):
		return math.MaxInt64, true
	}
	return time.Duration(n) * duration.Units[unit].Length, true
}

// checkLength fails if the length of a window, a hold or a block is out of range.
func checkLength(at int, what string, length time.Duration) {
	switch {
	case length < weir.MinWindow:
		fail(at, "use 1ms to 400d", "the %s is shorter than 1ms", what)
	case length > weir.MaxWindow:
		fail(at, "use 1ms to 400d", "the %s is longer than 400 days", what)
	}
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
		if w.length == d && w.name != weir.Month.String() {
			return w.name
		}
	}
	return duration.Format(d)
}

// parseNumber reads a whole number in which _ may group digits. A number above the
// largest int64 becomes that, which every range check rejects. The problem is "", or the
// end of a sentence that begins with the number.
func parseNumber(s string) (n int64, problem string) {
	if !isGrouped(s) || strings.Trim(s, "0123456789_") != "" {
		return 0, "is not a whole number"
	}
	if len(s) > 1 && s[0] == '0' {
		return 0, "begins with 0, which some programs take for base eight"
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		return math.MaxInt64, ""
	}
	return n, ""
}

// isGrouped reports whether each _ of a number stands between two other characters, and the number
// is not empty.
func isGrouped(s string) bool {
	return s != "" && s[0] != '_' && s[len(s)-1] != '_' && !strings.Contains(s, "__")
}

// formatNumber groups the digits of numbers from 10_000.
func formatNumber(n int64) string {
	if n < 0 {
		return "-" + formatNumber(-n)
	}
	s := strconv.FormatInt(n, 10)
	if n < 10_000 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "_" + s[i:]
	}
	return s
}
