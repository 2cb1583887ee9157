package weirhttp

import (
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
	for _, line := range res.Header.Values("RateLimit") {
		for _, item := range splitField(line, ',') {
			most = max(most, exhausted(item))
		}
	}
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		most = max(most, exhaustedLegacy(res.Header, prefix, now))
	}
	return most
}

// retryAfter reads seconds or a date. A date is compared with the server's own
// clock, if the response tells it.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return seconds(n)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}

// exhausted reads an item of the RateLimit field, such as "name";r=0;t=30: the time
// until there is more, if nothing remains.
func exhausted(item string) time.Duration {
	remaining, reset := int64(-1), int64(-1)
	for i, part := range splitField(item, ';') {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if i == 0 || !ok || err != nil {
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

// exhaustedLegacy reads the fields …-Remaining and …-Reset. A reset is in seconds,
// from now or, as its size tells, since 1970.
func exhaustedLegacy(h http.Header, prefix string, now time.Time) time.Duration {
	remaining, err := strconv.ParseInt(strings.TrimSpace(h.Get(prefix+"Remaining")), 10, 64)
	if err != nil || remaining > 0 {
		return 0
	}
	reset, err := strconv.ParseInt(strings.TrimSpace(h.Get(prefix+"Reset")), 10, 64)
	if err != nil {
		return 0
	}
	const year2000 = 946_684_800
	if reset > year2000 {
		return max(0, time.Unix(min(reset, math.MaxInt32*4), 0).Sub(now))
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
