package answer

import (
	"strconv"
	"strings"
	"time"

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
