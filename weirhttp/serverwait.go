package weirhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// serverWait returns how long a response requests to back off, from now on; 0 if it does
// not. Fields that cannot be read are ignored; of several waits the longest counts.
func serverWait(res *http.Response, now time.Time) time.Duration {
	longest := time.Duration(0)
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		longest = retryAfter(res.Header, now)
	}
	for _, item := range splitField(strings.Join(res.Header.Values("RateLimit"), ","), ',') {
		longest = max(longest, exhaustedFor(splitField(item, ';')[1:])) // behind a name, such as "name";r=0;t=30
	}
	return max(longest, legacyWait(res.Header, now))
}

// serverNow returns the server's clock, to compare instants that it names with. Without
// a Date field it is ours.
func serverNow(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// integer reads a whole number in digits. One out of range becomes the nearest int64.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// retryAfter reads the field Retry-After: seconds or a date.
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

// exhaustedFor returns the wait of the parameter t if r is 0, else 0.
func exhaustedFor(parameters []string) time.Duration {
	left, wait := int64(-1), int64(-1)
	for _, parameter := range parameters {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		n, ok := integer(value)
		switch {
		case !ok:
		case name == "r":
			left = n
		case name == "t":
			wait = n
		}
	}
	if left != 0 {
		return 0
	}
	return seconds(wait)
}

// legacyWait reads the fields X-RateLimit-Remaining and X-RateLimit-Reset, as of GitHub. A
// reset is in seconds: from now or, if it is large, since 1970.
func legacyWait(h http.Header, now time.Time) time.Duration {
	remaining, ok := integer(h.Get("X-RateLimit-Remaining"))
	if !ok || remaining > 0 {
		return 0
	}
	reset, ok := integer(h.Get("X-RateLimit-Reset"))
	if !ok {
		return 0
	}
	const year2000 = 946_684_800
	if reset > year2000 {
		return max(0, time.Unix(min(reset, math.MaxInt32*4), 0).Sub(serverNow(h, now)))
	}
	return seconds(reset)
}

// seconds converts a number of seconds that a server sent, within the range of Duration.
func seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(max(n, 0), most)) * time.Second
}

// splitField splits a structured field at separators outside quoted strings.
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
