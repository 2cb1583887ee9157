// Package problemdoc writes problem documents (RFC 9457), in one form for the middleware and the
// service.
package problemdoc

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir/internal/answer"
)

// Write answers with a problem document of type about:blank. Its title is the status text. detail
// names the problem and the next step.
func Write(w http.ResponseWriter, status int, detail string) {
	b := Append(nil, "about:blank", http.StatusText(status), status, detail)
	Send(w, status, append(b, "}\n"...))
}

// Append appends the members that every problem has, and leaves the object open.
func Append(b []byte, kind, title string, status int, detail string) []byte {
	b = answer.AppendString(append(b, `{"type":`...), kind)
	b = answer.AppendString(append(b, `,"title":`...), title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	return answer.AppendString(append(b, `,"detail":`...), detail)
}

// Send answers with a document that ends with "}". The answer must not be cached.
func Send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body)
}
