package policy

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber reads a whole number in which _ may group digits. A number above the
// largest int64 becomes that, which every range check rejects. The problem is "", or the
// end of a sentence that begins with the number.
func parseNumber(s string) (n int64, problem string) {
	if s == "" || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") || strings.Trim(s, "0123456789_") != "" {
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

// formatNumber groups the digits of numbers from 10_000.
func formatNumber(n int64) string {
	s := strconv.FormatInt(n, 10)
	if n < 10_000 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "_" + s[i:]
	}
	return s
}
