package weirhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// Form says which header fields tell clients about their limits. Retry-After is
// no part of it: a refusal always carries it.
type HeaderForm uint8

const (
	// Draft writes RateLimit and RateLimit-Policy as in
	// draft-ietf-httpapi-ratelimit-headers-10.
	HeadersDraft HeaderForm = iota
	// Legacy writes X-RateLimit-Limit, -Remaining and -Reset (Unix seconds), of
	// the limit that bound or else has the least room.
	HeadersLegacy
	// Both writes Draft and Legacy.
	HeadersBoth
	// None writes neither.
	HeadersNone
)

// spacing ends the name under which a limit's Gap is published: a gap of 3s is
// a rolling limit of 1 in 3s.
const spacing = ".spacing"

// maxInteger is the largest Integer of a structured field: 15 digits (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// WriteHeaders writes Retry-After, where it has a place, and the fields of the
// form. Lines of RateLimit and RateLimit-Policy that an outer Limit has written
// stay; but a refusal leaves in RateLimit only what stands in the way of it, so
// that no t points past Retry-After.
func (o *Outcome) WriteHeaders(h http.Header, form HeaderForm) {
	o.writeHeaders(h, form, "")
}

// writeHeaders is WriteHeaders for who knows the policy field already, or "".
func (o *Outcome) writeHeaders(h http.Header, form HeaderForm, field string) {
	if seconds, ok := o.RetryAfter(); ok {
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if form == HeadersDraft || form == HeadersBoth {
		if field == "" {
			field = PolicyField(o.Plan)
		}
		o.writeDraft(h, field)
	}
	if form == HeadersLegacy || form == HeadersBoth {
		o.writeLegacy(h)
	}
}

func (o *Outcome) writeDraft(h http.Header, field string) {
	h.Add("RateLimit-Policy", field)
	if !o.Decision.Allowed {
		h.Del("RateLimit")
	}
	if v := o.RateLimit(); v != "" {
		h.Add("RateLimit", v)
	}
}

// PolicyField is the value of the RateLimit-Policy field: every limit of the
// plan as "name";q=max;w=seconds, and its gap as "name.spacing";q=1;w=seconds.
// It is the same for every decision. Windows go up to whole seconds; below one
// second w is left out. The name is that of the policy, followed by a dot and
// that of the limit unless the limit is called "limit".
func PolicyField(p *weir.Plan) string {
	var b []byte
	for i, l := range p.Limits() {
		b = appendPolicy(b, fieldName(p, i), l.Max, l.Window)
		if l.MinInterval > 0 {
			b = appendPolicy(b, fieldName(p, i)+spacing, 1, l.MinInterval)
		}
	}
	return string(b)
}

// appendPolicy appends one item; the window is in microseconds.
func appendPolicy(b []byte, name string, quota, window int64) []byte {
	b = appendName(b, name)
	b = appendParameter(b, ";q=", quota)
	if window >= 1e6 {
		b = appendParameter(b, ";w=", (window+1e6-1)/1e6)
	}
	return b
}

// RateLimit is the value of the RateLimit field: "name";r=remaining;t=seconds
// for every limit or, after a refusal, only for those that stand in the way. t is
// the time until there is more room, rounded up, and left out while nothing is
// used. The value is "" when no state is known.
func (o *Outcome) RateLimit() string {
	b := make([]byte, 0, 64)
	for i, s := range o.known() {
		if o.Decision.Allowed || o.lacksRoom(i, s) {
			b = appendState(b, fieldName(o.Plan, i), s.Remaining, more(s))
		}
		if s.MinInterval > 0 && (o.Decision.Allowed || s.MinIntervalAfter > 0) {
			open := int64(1)
			if s.MinIntervalAfter > 0 {
				open = 0
			}
			b = appendState(b, fieldName(o.Plan, i)+spacing, open, s.MinIntervalAfter)
		}
	}
	return string(b)
}

func appendState(b []byte, name string, remaining int64, more time.Duration) []byte {
	b = appendName(b, name)
	b = appendParameter(b, ";r=", remaining)
	if more > 0 {
		b = appendParameter(b, ";t=", answer.Seconds(more))
	}
	return b
}

// more is the time until the limit has more room than now, or a later one: above
// its Max a unit that leaves makes no room yet.
func more(s *weir.LimitState) time.Duration {
	switch {
	case s.Remaining >= 0:
		return s.NextAfter
	case s.RetryAfter > 0:
		return s.RetryAfter
	}
	return s.ResetAfter
}

// fieldName is the name under which limit i is published. Names need no
// escaping in a structured field string.
func fieldName(p *weir.Plan, i int) string {
	limit := p.Limits()[i].Name
	if limit == "limit" {
		return p.Name()
	}
	return p.Name() + "." + limit
}

func appendName(b []byte, name string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// appendParameter appends an Integer within 0 … maxInteger.
func appendParameter(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), min(max(n, 0), maxInteger), 10)
}

func (o *Outcome) writeLegacy(h http.Header) {
	s := o.tightest()
	if s == nil {
		return
	}
	wait := s.NextAfter
	if o.Decision.RetryAfter > 0 && !o.Decision.Allowed {
		wait = o.Decision.RetryAfter
	}
	reset := o.Decision.At.Add(wait + time.Second - time.Nanosecond).Unix()
	h.Set("X-RateLimit-Limit", strconv.FormatInt(s.Max, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(0, s.Remaining), 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}

// tightest is the limit that bound, else the one with the least room, or nil.
func (o *Outcome) tightest() *weir.LimitState {
	var t *weir.LimitState
	for _, s := range o.known() {
		if s.Name == o.Decision.Limit {
			return s
		}
		if t == nil || s.Remaining < t.Remaining {
			t = s
		}
	}
	return t
}
