package calls

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// Problem is a request that gets no decision for a reason of its own. Nothing was
// charged (R14).
type Problem struct {
	Err    error  // weir.ErrInput, ErrMissing, weir.ErrSettled or weir.ErrExpired
	Detail string // the reason and the next step
	Log    string // Detail without values of the request, for the log; "" = Detail has none
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns Err.
func (p *Problem) Unwrap() error { return p.Err }

// ErrMissing is wrapped by the problem of a request that names something unknown.
var ErrMissing = fmt.Errorf("%w: not found", weir.ErrInput)

// ErrUnconfirmed is wrapped by the error of a change of an override that the store may have made.
var ErrUnconfirmed = errors.New("the store has not confirmed the change, which may be made; " +
	"read the overrides again before you repeat it")

// BadInput returns a problem that wraps weir.ErrInput, with the formatted detail.
func BadInput(format string, args ...any) error {
	return &Problem{Err: weir.ErrInput, Detail: fmt.Sprintf(format, args...)}
}

// NoPolicy returns the problem of an unknown policy, by the error of enforce.Version.Rule. It
// wraps kind. next is the next step where the error suggests no name.
func NoPolicy(err, kind error, next string) error {
	detail := strings.TrimPrefix(err.Error(), "weir: ")
	if !strings.HasSuffix(detail, "?") {
		detail += "; " + next
	}
	return &Problem{Err: kind, Detail: detail}
}

// Failure is the answer of the protocols to a call that got no decision.
type Failure struct {
	Status int    // of HTTP; over gRPC 503 is Unavailable, all others InvalidArgument
	Code   string // the first word of an error over RESP
	Text   string
}

var (
	wrong       = Failure{Status: http.StatusBadRequest, Code: "ERR"}
	unavailable = Failure{Status: http.StatusServiceUnavailable, Code: "UNAVAILABLE"}
)

// failures are the answers to errors, by the first that an error wraps. Bad input has the
// error's own text. That of the store is not sent: it may hold secrets.
var failures = []answer.ForError[Failure]{
	answer.For(ErrMissing, Failure{Status: http.StatusNotFound, Code: "ERR"}, ""),
	answer.For(enforce.ErrNoOverride, Failure{Status: http.StatusNotFound, Code: "ERR"}, ""),
	answer.For(engine.ErrConflict, Failure{Status: http.StatusPreconditionFailed, Code: "ERR"}, ""),
	answer.For(weir.ErrInput, wrong, ""),
	answer.For(weir.ErrOverflow, wrong, ""),
	answer.For(weir.ErrSettled, Failure{Status: http.StatusConflict, Code: "SETTLED"}, ""),
	answer.For(weir.ErrExpired, Failure{Status: http.StatusGone, Code: "EXPIRED"}, ""),
	answer.For(ErrBusy, unavailable, ""),
	answer.For(ErrUnconfirmed, unavailable, ErrUnconfirmed.Error()),
	answer.For(weir.ErrFull, unavailable, "no decision: the store is full, "+
		"and forgets nothing that still counts; try again later, or give the store more room"),
	answer.For(nil, unavailable,
		"no decision: the store is unavailable; try again later, or read the log of weir"),
}

// Fail returns the answer to err. It counts bad input and logs errors of the store.
func Fail(err error, badInputs *atomic.Int64, log *observe.Log) Failure {
	f, text := answer.ToError(err, failures)
	f.Text = text
	switch {
	case f.Status != http.StatusServiceUnavailable:
		badInputs.Add(1)
	case !errors.Is(err, ErrBusy):
		log.NoDecision(err)
	}
	return f
}

// IsBadInput reports whether err concerns the request, not the store.
func IsBadInput(err error) bool {
	concernsReservation := errors.Is(err, weir.ErrSettled) || errors.Is(err, weir.ErrExpired)
	return concernsReservation || errors.As(err, new(*Problem)) || answer.IsBadInput(err)
}
