package weirhttp

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
)

// Outcome is one decision with its request and the states of the limits: the source of
// the header fields and of the problem document. Compiled and Decision are required.
type Outcome struct {
	Compiled *engine.Compiled
	Key      weir.Key
	Op       weir.Op
	N        int64 // requested units
	Decision weir.Decision
	States   []weir.LimitState // as Request.States, in the order of the limits; nil = unknown
	Units    []string          // the word for each limit's units, such as "messages"; "" or missing = no word
	Blocked  time.Time         // end of the key's block (policy file); zero = no block
}

// Why returns the decision and the next step in one English sentence. Values of the key
// are escaped and shortened.
func (o *Outcome) Why() string { return (*answer.Answer)(o).Why() }

// RetryAfter returns the value of the Retry-After field: whole seconds, rounded up, at
// least 1. ok is false if the attempt was allowed, or can never be (weir.Never).
func (o *Outcome) RetryAfter() (seconds int64, ok bool) {
	d := &o.Decision
	if d.Allowed || d.RetryAfter == weir.Never {
		return 0, false
	}
	return max(1, answer.Seconds(d.RetryAfter)), true
}

// violated returns the names of the limits that denied the attempt, as in the
// RateLimit-Policy field. It is empty if the attempt was allowed.
func (o *Outcome) violated() []string {
	names := []string{}
	if o.Decision.Allowed {
		return names
	}
	for i, s := range o.known() {
		if o.lacksRoom(i, s) {
			names = append(names, fieldName(o.Compiled, i))
		}
		if s.MinIntervalAfter > 0 {
			names = append(names, fieldName(o.Compiled, i)+intervalSuffix)
		}
	}
	return names
}

// known yields the known states with the indices of their limits.
func (o *Outcome) known() iter.Seq2[int, *weir.LimitState] { return (*answer.Answer)(o).Known() }

// lacksRoom reports whether limit i has too few units left for the attempt. Its minimum
// interval is not considered.
func (o *Outcome) lacksRoom(i int, s *weir.LimitState) bool {
	return s.Remaining < o.Compiled.Limits[i].Units(o.N)
}

type contextKey struct{}

// FromContext returns the outcome of the request that a handler behind Middleware
// serves. It holds Decision.Granted, for policies of mode Partial, and Decision.At, for
// refunds. Behind several Middlewares it is the innermost one's.
func FromContext(ctx context.Context) (*Outcome, bool) {
	o, ok := ctx.Value(contextKey{}).(*Outcome)
	return o, ok
}

// quotaExceeded is the problem type of a denial, registered by
// draft-ietf-httpapi-ratelimit-headers-10.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// WriteProblem answers a denial with a problem document (RFC 9457). Its members are
// type, title, status, detail (the sentence of Why), violated-policies and
// retry_after_ms (-1 = never). The answer must not be cached. Call WriteHeaders first.
func (o *Outcome) WriteProblem(w http.ResponseWriter, status int) {
	b := appendProblem(nil, quotaExceeded, "Quota exceeded", status, o.Why())
	b = append(b, `,"violated-policies":[`...)
	for i, name := range o.violated() {
		if i > 0 {
			b = append(b, ',')
		}
		b = answer.AppendString(b, name)
	}
	b = append(b, `],"retry_after_ms":`...)
	b = strconv.AppendInt(b, answer.Millis(o.Decision.RetryAfter), 10)
	writeProblem(w, status, append(b, "}\n"...))
}

// WriteError answers with a problem document of type about:blank. Its title is the
// status text. detail names the problem and the next step.
func WriteError(w http.ResponseWriter, status int, detail string) {
	b := appendProblem(nil, "about:blank", http.StatusText(status), status, detail)
	writeProblem(w, status, append(b, "}\n"...))
}

// appendProblem appends the members that every problem has, and leaves the object open.
func appendProblem(b []byte, kind, title string, status int, detail string) []byte {
	b = answer.AppendString(append(b, `{"type":`...), kind)
	b = answer.AppendString(append(b, `,"title":`...), title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	return answer.AppendString(append(b, `,"detail":`...), detail)
}

func writeProblem(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body)
}
