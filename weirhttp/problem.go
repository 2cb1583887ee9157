package weirhttp

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir/internal/answer"
)

// QuotaExceeded is the problem type of a denial, registered by
// draft-ietf-httpapi-ratelimit-headers-10.
const QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// WriteProblem answers a denial with a problem document (RFC 9457). Its members are
// type, title, status, detail (the sentence of Why), violated-policies and
// retry_after_ms (-1 = never). The answer must not be cached. Call WriteHeaders first.
func (o *Outcome) WriteProblem(w http.ResponseWriter, status int) {
	b := appendProblem(nil, QuotaExceeded, "Quota exceeded", status, o.Why())
	b = append(b, `,"violated-policies":[`...)
	for i, name := range o.Violated() {
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
