package answer

import (
	"strconv"
	"time"
	"unicode/utf8"
)

const day = 24 * time.Hour

// Wait formats a wait for people: "850µs", "412ms", "1.8s", "6m52s", "5h12m",
// "3d4h". It is at most two units long and rounded up, never down.
func Wait(d time.Duration) string { return Exactly(roundUp(d)) }

// Ago formats a past time as Wait does, rounded down.
func Ago(d time.Duration) string {
	step := precision(d)
	return Exactly(d - d%step)
}

// roundUp may reach the next coarser class ("59.97s" becomes "1m"), where the
// result is a round number again.
func roundUp(d time.Duration) time.Duration {
	step := precision(d)
	if rest := d % step; rest > 0 {
		d += step - rest
	}
	return d
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
	if d < time.Second {
		return subsecond(d)
	}
	var b []byte
	if d >= 2*day {
		b = append(strconv.AppendInt(b, int64(d/day), 10), 'd')
		d %= day
	}
	if d >= time.Hour {
		b = append(strconv.AppendInt(b, int64(d/time.Hour), 10), 'h')
		d %= time.Hour
	}
	if d >= time.Minute {
		b = append(strconv.AppendInt(b, int64(d/time.Minute), 10), 'm')
		d %= time.Minute
	}
	if d > 0 {
		b = append(appendFraction(b, int64(d), 1e9), 's')
	}
	return string(b)
}

func subsecond(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	if d < time.Millisecond {
		return string(append(appendFraction(nil, int64(d), 1e3), "µs"...))
	}
	return string(append(appendFraction(nil, int64(d), 1e6), "ms"...))
}

// appendFraction appends n / unit in decimal, without trailing zeros. unit is a
// power of ten.
func appendFraction(b []byte, n, unit int64) []byte {
	b = strconv.AppendInt(b, n/unit, 10)
	rest := n % unit
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for rest > 0 {
		unit /= 10
		b = append(b, byte('0'+rest/unit))
		rest %= unit
	}
	return b
}

// window formats the length of a window after "the last".
func window(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return Exactly(d)
}

// mostShown is the number of bytes of a caller's value that are shown.
const mostShown = 64

// Shown formats a caller's value for a sentence, a log or a terminal: plain words as they
// are, other values quoted and escaped, long ones shortened.
func Shown(v string) string {
	if v != "" && len(v) <= mostShown && isPlain(v) {
		return v
	}
	if len(v) <= mostShown {
		return strconv.Quote(v)
	}
	cut := mostShown
	for cut > mostShown-utf8.UTFMax && !utf8.RuneStart(v[cut]) {
		cut--
	}
	return strconv.Quote(v[:cut]) + "…"
}

func isPlain(v string) bool {
	for i := range len(v) {
		c := v[i]
		alnum := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !alnum && c != '-' && c != '_' && c != '.' && c != ':' && c != '@' && c != '+' && c != '/' {
			return false
		}
	}
	return true
}
