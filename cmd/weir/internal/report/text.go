package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/answer"
)

// shown returns a name from a log or a file as text of at most maxText characters.
func shown(s string) string { return clip(s, maxText) }

// sentence returns a sentence or a policy line.
func sentence(s string) string { return clip(s, maxSentence) }

// clip escapes the characters of s that are invisible or change the direction of writing,
// and shortens it to most characters.
func clip(s string, most int) string {
	head := first(s, most)
	out := string(answer.Printable([]byte(head)))
	if cut := first(out, most); len(head) < len(s) || len(cut) < len(out) {
		return cut + "…"
	}
	return out
}

// first returns the first n characters of s.
func first(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// grouped returns a number such as 1,234,567.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && digits[i-1] != '-' && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// share returns a share such as 4.2 %. A share below 0.01 % that is not zero is shown as
// such.
func share(part, whole int64) string {
	switch p := float64(part) * 100 / float64(max(whole, 1)); {
	case part == 0:
		return "0 %"
	case p < 0.01:
		return "< 0.01 %"
	case p < 1:
		return fmt.Sprintf("%.2f %%", p)
	case p < 99.95 || part == whole:
		return strings.Replace(fmt.Sprintf("%.1f %%", p), ".0 %", " %", 1)
	default:
		return "> 99.9 %"
	}
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}
