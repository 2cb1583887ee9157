package weirhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// told is how long a response says to stay away, as of now; 0 if it does not. Fields
// that cannot be read say nothing.
func told(res *http.Response, now time.Time) time.Duration {
	most := time.Duration(0)
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		most = retryAfter(res.Header, now)
	}
	items := splitField(strings.Join(res.Header.Values("RateLimit"), ","), ',')
	for _, item := range items {
		most = max(most, exhausted(item))
	}
	most = max(most, exhaustedDictionary(items))
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		most = max(most, exhaustedLegacy(res.Header, prefix, now))
	}
	return most
}

// serverNow is the server's own clock, with which instants that it names are to be
// compared, if the response tells it, and else ours.
func serverNow(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// integer reads a whole number in digits. One that is too long to be held is as good
// as the longest.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// retryAfter reads seconds or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, ok := integer(v); ok {
		return seconds(n)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(serverNow(h, now)))
}

// exhausted reads an item of the RateLimit field, such as "name";r=0;t=30: the time
// until there is more, if nothing remains.
func exhausted(item string) time.Duration {
	remaining, reset := int64(-1), int64(-1)
	for i, part := range splitField(item, ';') {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, ok := integer(value)
		if i == 0 || !ok {
			continue
		}
		switch name {
		case "r":
			remaining = n
		case "t":
			reset = n
		}
	}
	if remaining != 0 {
		return 0
	}
	return seconds(reset)
}

// exhaustedDictionary reads the field as draft 7 had it: limit=10, remaining=0,
// reset=30.
func exhaustedDictionary(items []string) time.Duration {
	remaining, reset := int64(-1), int64(-1)
	for _, item := range items {
		member, _, _ := strings.Cut(item, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		n, ok := integer(value)
		switch {
		case !ok:
		case name == "remaining":
			remaining = n
		case name == "reset":
			reset = n
		}
	}
	if remaining != 0 {
		return 0
	}
	return seconds(reset)
}

// exhaustedLegacy reads the fields …-Remaining and …-Reset. A reset is in seconds,
// from now or, as its size tells, since 1970.
func exhaustedLegacy(h http.Header, prefix string, now time.Time) time.Duration {
	remaining, ok := integer(h.Get(prefix + "Remaining"))
	if !ok || remaining > 0 {
		return 0
	}
	reset, ok := integer(h.Get(prefix + "Reset"))
	if !ok {
		return 0
	}
	const year2000 = 946_684_800
	if reset > year2000 {
		return max(0, time.Unix(min(reset, math.MaxInt32*4), 0).Sub(serverNow(h, now)))
	}
	return seconds(reset)
}

// seconds converts a number of seconds that somebody else chose.
func seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(max(n, 0), most)) * time.Second
}

// splitField splits a structured field where a separator is not within a string.
func splitField(s string, separator byte) (parts []string) {
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == separator:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}
