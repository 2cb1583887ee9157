package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/serving"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/weirhttp"
)

// reject answers a request that got no decision with a problem document.
func (a *API) reject(w http.ResponseWriter, err error) {
	strict(w.Header())
	if errors.Is(err, serving.ErrBusy) {
		w.Header()["Retry-After"] = oneSecond
	}
	status, detail := a.problemOf(err)
	weirhttp.WriteError(w, status, detail)
}

// problemOf returns the status and the detail of a request without a decision. It counts bad
// requests and logs errors of the store.
func (a *API) problemOf(err error) (status int, detail string) {
	status = http.StatusServiceUnavailable
	var p *serving.Problem
	switch {
	case errors.As(err, &p):
		a.BadRequests.Add(1)
		status, detail = p.Status, p.Detail
	case serving.IsBadInput(err):
		a.BadRequests.Add(1)
		status, detail = http.StatusBadRequest, err.Error()
	case errors.Is(err, serving.ErrBusy):
		detail = "no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir"
	case errors.Is(err, weir.ErrFull):
		a.Errors.NoDecision(err)
		detail = "no decision: the store holds as many keys as it may, and all of them still count; try again later, or give the store more room"
	default:
		a.Errors.NoDecision(err)
		detail = "no decision: the store is unavailable; try again later, or read the log of weir"
	}
	return status, detail
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
