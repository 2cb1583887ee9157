package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
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
	status, detail := a.problemOf(err)
	weirhttp.WriteError(w, status, detail)
}

// errorAnswers are the answers to errors, by the first that an error wraps. Bad input has the
// error's own text for a detail. That of the store is not sent: it may hold secrets.
var errorAnswers = []answer.ForError[int]{
	answer.For(calls.ErrMissing, http.StatusNotFound, ""),
	answer.For(weir.ErrInput, http.StatusBadRequest, ""),
	answer.For(weir.ErrOverflow, http.StatusBadRequest, ""),
	answer.For(weir.ErrSettled, http.StatusConflict, ""),
	answer.For(weir.ErrExpired, http.StatusGone, ""),
	answer.For(calls.ErrBusy, http.StatusServiceUnavailable, "no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir"),
	answer.For(weir.ErrFull, http.StatusServiceUnavailable, "no decision: the store holds as many keys as it may, and all of them still count; try again later, or give the store more room"),
	answer.For(nil, http.StatusServiceUnavailable, "no decision: the store is unavailable; try again later, or read the log of weir"),
}

// problemOf returns the status and the detail of a request without a decision. It counts bad
// requests and logs errors of the store.
func (a *API) problemOf(err error) (status int, detail string) {
	status, detail = answer.ToError(err, errorAnswers)
	switch {
	case status != http.StatusServiceUnavailable:
		a.BadRequests.Add(1)
	case !errors.Is(err, calls.ErrBusy):
		a.Errors.NoDecision(err)
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
