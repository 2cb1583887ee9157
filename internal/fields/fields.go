// Package fields makes the header fields of a decision: Retry-After, and RateLimit and
// RateLimit-Policy as in draft-ietf-httpapi-ratelimit-headers-10. weirhttp and the gate of the
// service write the same ones.
package fields

import (
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
)

// intervalSuffix ends the name under which a limit's MinInterval is published. A
// MinInterval of 3s appears as a rolling limit of 1 in 3s. No limit's name has a slash.
const intervalSuffix = "/interval"

// maxInteger is the largest Integer of a structured field: 15 digits (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// RetryAfter returns the value of the Retry-After field: whole seconds, rounded up, at
// least 1. ok is false if the attempt was allowed, or can never be (weir.Never).
func RetryAfter(o *weir.Outcome) (seconds int64, ok bool) {
	d := &o.Decision
	if d.Allowed || d.RetryAfter == weir.Never {
		return 0, false
	}
	return max(1, answer.Seconds(d.RetryAfter)), true
}

// Policy returns the value of the RateLimit-Policy field, which is the same for
// every decision. Each limit of the policy is "name";q=max;w=seconds, and its MinInterval
// is "name/interval";q=1;w=seconds. Windows are rounded up to seconds; below one second w
// is left out. The name is "policy.limit", or only "policy" if the limit is called
// "limit".
//
//   - Of a Bucket q is the Burst, and w the time in which so many units flow in. So q/w is
//     its rate.
//   - Of Concurrency q has the quota unit qu="concurrent-requests", and there is no w.
//   - Of a Period w is its length without changes of the clock. A Month has no w, because
//     months differ.
func Policy(p *engine.Compiled) string {
	var b []byte
	for i := range p.Limits {
		l := &p.Limits[i]
		b = appendName(b, fieldName(p, i))
		b = appendParameter(b, ";q=", l.Capacity)
		window, unit := answer.Quota(l)
		if unit != "" {
			b = append(append(append(b, `;qu="`...), unit...), '"')
		}
		b = appendWindow(b, window)
		if l.MinInterval > 0 {
			b = appendName(b, fieldName(p, i)+intervalSuffix)
			b = appendWindow(appendParameter(b, ";q=", 1), l.MinInterval)
		}
	}
	return string(b)
}

// appendWindow appends w, in seconds; nothing for less than one. window is in microseconds.
func appendWindow(b []byte, window int64) []byte {
	if window < 1e6 {
		return b
	}
	return appendParameter(b, ";w=", (window+1e6-1)/1e6)
}

// RateLimit returns the value of the RateLimit field, "name";r=remaining;t=seconds for
// each limit. A denial lists only the limits that denied it. t is the time until there is
// more room, rounded up; it is left out while nothing is used. Of a Bucket it is the time
// until the next unit flows in. Of Concurrency only a denial has it, the latest end of the
// next hold: after a grant room comes with the end of responses, and clients that wait for
// t would wait for nothing. The value is "" if no state is known.
func RateLimit(o *weir.Outcome) string {
	b := make([]byte, 0, 64)
	Each(o, func(name string, remaining int64, next time.Duration) {
		b = appendParameter(appendName(b, name), ";r=", remaining)
		if next > 0 {
			b = appendParameter(b, ";t=", answer.Seconds(next))
		}
	})
	return string(b)
}

// Each calls f with the items of the RateLimit field. next is the time until the item has
// more room, 0 if it is not known.
func Each(o *weir.Outcome, f func(name string, remaining int64, next time.Duration)) {
	allowed := o.Decision.Allowed
	for i, s := range answer.Of(o).Known() {
		if allowed || s.Remaining < o.Rules.Limits[i].Units(o.N) {
			next := nextRoom(s)
			if allowed && s.MaxHold > 0 {
				next = 0
			}
			f(fieldName(o.Rules, i), s.Remaining, next)
		}
		if s.MinInterval > 0 && (allowed || s.MinIntervalAfter > 0) {
			open := int64(1)
			if s.MinIntervalAfter > 0 {
				open = 0
			}
			f(fieldName(o.Rules, i)+intervalSuffix, open, s.MinIntervalAfter)
		}
	}
}

// nextRoom returns the time until the limit has more room than now. Above its Max that
// is a later instant, because a unit that expires makes no room yet.
func nextRoom(s *weir.LimitState) time.Duration {
	switch {
	case s.Remaining >= 0:
		return s.NextAfter
	case s.RetryAfter > 0 && s.RetryAfter != weir.Never:
		return s.RetryAfter
	}
	return s.ResetAfter
}

// fieldName returns the name under which limit i is published. It needs no escaping in a
// structured field.
func fieldName(p *engine.Compiled, i int) string {
	limit := p.Limits[i].Name
	if limit == "limit" {
		return p.Name
	}
	return p.Name + "." + limit
}

func appendName(b []byte, name string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// appendParameter appends n, limited to 0 … maxInteger.
func appendParameter(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), min(max(n, 0), maxInteger), 10)
}
