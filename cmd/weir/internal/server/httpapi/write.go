package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/weirhttp"
)

// reject answers a request that got no decision with a problem document.
func (a *API) reject(w http.ResponseWriter, err error) {
	strict(w.Header())
	if errors.Is(err, calls.ErrBusy) {
		w.Header()["Retry-After"] = oneSecond
	}
	f := calls.Fail(err, &a.BadRequests, a.Errors)
	weirhttp.WriteError(w, f.Status, f.Text)
}

// Values of header fields, shared by all answers.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}

	// noContent keeps a browser from running or framing an answer.
	noContent = []string{"default-src 'none'; frame-ancestors 'none'"}
)

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	w.Write(body)
}

// marshal returns v as a line of JSON.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers cannot fail
	}
	return append(answer.Printable(b), '\n')
}
