package answer

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/shorten"
)

const day = 24 * time.Hour

// Wait formats a wait for people: "850µs", "412ms", "1.8s", "6m52s", "5h12m",
// "3d4h". It is at most two units long and rounded up, never down.
func Wait(d time.Duration) string {
	step := precision(d)
	// The result may be of the next coarser class ("59.97s" becomes "1m"), in which it is
	// a round number again.
	return Exactly((d + step - 1) / step * step)
}

// Ago formats a past time as Wait does, rounded down.
func Ago(d time.Duration) string {
	step := precision(d)
	return Exactly(d - d%step)
}

// AppendInstant appends t in UTC with six digits of the second: "2026-11-27T09:08:07.123456Z".
func AppendInstant(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339) // several times as fast as a layout with digits
	micros := strconv.Itoa(1e6 + t.Nanosecond()/1000)
	b = append(append(b[:len(b)-len("Z")], '.'), micros[1:]...)
	return append(b, 'Z')
}

// precision returns the step to which a duration of that size is rounded.
func precision(d time.Duration) time.Duration {
	switch {
	case d < time.Millisecond:
		return time.Microsecond
	case d < time.Second:
		return time.Millisecond
	case d < 10*time.Second:
		return 100 * time.Millisecond
	case d < time.Hour:
		return time.Second
	case d < 2*day:
		return time.Minute
	}
	return time.Hour
}

// Exactly formats a duration of whole microseconds in full: "250ms", "1m30s",
// "24h", "7d". Days begin at two, so that a window of a day reads as the 24
// hours that it is.
func Exactly(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	days := ""
	if d >= 2*day {
		days = strconv.FormatInt(int64(d/day), 10) + "d"
		if d %= day; d == 0 {
			return days
		}
	}
	text := strings.Replace(d.String(), "h0m", "h", 1) // 1h0m0s
	if strings.HasSuffix(text, "h0s") || strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-len("0s")]
	}
	return days + text
}

// maxShown is the number of bytes of a caller's value that are shown.
const maxShown = 64

// Shown formats a caller's value for a sentence, a log or a terminal: plain words as they
// are, other values quoted and escaped, long ones shortened.
func Shown(v string) string {
	if len(v) > maxShown {
		return strconv.Quote(shorten.Cut(v, maxShown)) + "…"
	}
	odd := v == ""
	for _, c := range v {
		alnum := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		odd = odd || !alnum && !strings.ContainsRune("-_.:@+/", c)
	}
	if odd {
		return strconv.Quote(v)
	}
	return v
}

// Quoted is Shown, always in quotes.
func Quoted(v string) string {
	if shown := Shown(v); strings.HasPrefix(shown, `"`) {
		return shown
	}
	return strconv.Quote(v)
}

// AppendString appends s as a JSON string. It escapes < > & and the characters that
// Printable escapes, since they could act in a page or a terminal. Bytes that are not UTF-8
// become U+FFFD, as in encoding/json.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if c >= utf8.RuneSelf && unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			continue
		}
		b, start = append(b, s[start:i-size]...), i
		if short := strings.IndexRune("\"\\\n\r\t", r); short >= 0 {
			b = append(b, '\\', `"\nrt`[short])
		} else {
			b = appendEscape(b, r)
		}
	}
	return append(append(b, s[start:]...), '"')
}

// appendEscape appends the escape of a character, \uXXXX or two of them.
func appendEscape(b []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}

// Printable escapes characters that could act in a terminal or change how a line reads:
// control characters except tabs and line ends, marks of writing direction, and invisible
// characters, also spaces that look like others. Each becomes an escape of JSON such as
// \u202e, and invalid UTF-8 becomes U+FFFD. The meaning of JSON text stays, since such
// characters are only in its strings. Text without any is returned as it is.
func Printable(text []byte) []byte {
	var b []byte
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if ' ' <= c && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if c < utf8.RuneSelf || r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			b = appendEscape(append(b, text[start:i]...), r)
			start = i + size
		}
		i += size
	}
	if start == 0 {
		return text
	}
	return append(b, text[start:]...)
}
