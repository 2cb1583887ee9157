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
	j := new(answer.JSON)
	j.Object("")
	WriteMembers(j, "about:blank", http.StatusText(status), status, detail)
	Send(w, status, j)
}

// WriteMembers writes the members that every problem has into an open object.
func WriteMembers(j *answer.JSON, kind, title string, status int, detail string) {
	j.String("type", kind)
	j.String("title", title)
	j.Int("status", int64(status))
	j.String("detail", detail)
}

// Send closes the object of a document and answers with it. The answer must not be cached.
func Send(w http.ResponseWriter, status int, document *answer.JSON) {
	document.EndObject()
	body := append(document.Text, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body)
}
