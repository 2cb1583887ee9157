package calls

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/answer"
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

// BadInput returns a problem that wraps weir.ErrInput.
func BadInput(detail string) error { return &Problem{Err: weir.ErrInput, Detail: detail} }

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
	err    error
	Status int    // of HTTP; Envoy's service has one code for 503 and one for all others
	Code   string // of RESP, by which programs tell errors apart
	Text   string // "" = that of the error
}

// failures are the answers to errors, by the first that an error wraps. Bad input has the
// error's own text. That of the store is not sent: it may hold secrets.
var failures = []Failure{
	{ErrMissing, http.StatusNotFound, "ERR", ""},
	{weir.ErrInput, http.StatusBadRequest, "ERR", ""},
	{weir.ErrOverflow, http.StatusBadRequest, "ERR", ""},
	{weir.ErrSettled, http.StatusConflict, "SETTLED", ""},
	{weir.ErrExpired, http.StatusGone, "EXPIRED", ""},
	{ErrBusy, http.StatusServiceUnavailable, "UNAVAILABLE", "no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir"},
	{weir.ErrFull, http.StatusServiceUnavailable, "UNAVAILABLE", "no decision: the store holds as many keys as it may, and all of them still count; try again later, or give the store more room"},
	{nil, http.StatusServiceUnavailable, "UNAVAILABLE", "no decision: the store is unavailable; try again later, or read the log of weir"},
}

// Fail returns the answer to err. It counts bad input and logs errors of the store.
func Fail(err error, badInputs *atomic.Int64, log *observe.Log) (f Failure) {
	for _, f = range failures {
		if errors.Is(err, f.err) {
			break
		}
	}
	switch {
	case f.Status != http.StatusServiceUnavailable:
		badInputs.Add(1)
	case f.err != ErrBusy:
		log.NoDecision(err)
	}
	f.Text = cmp.Or(f.Text, err.Error())
	return f
}

// IsBadInput reports whether err concerns the request, not the store.
func IsBadInput(err error) bool {
	var p *Problem
	return errors.As(err, &p) || answer.IsBadInput(err)
}

// ErrBusy rejects a request beyond a [Capacity].
var ErrBusy = errors.New("weir: too many requests in flight")

// Capacity bounds how many requests are in flight at once. Further requests are
// rejected immediately: a queue would add its length to every answer, while callers
// time out and retry. Requests that are still being received take no place, so slow
// clients cannot fill it.
type Capacity struct {
	max      int64
	inFlight atomic.Int64
	rejected atomic.Int64
}

// NewCapacity returns a capacity of n requests.
func NewCapacity(n int) *Capacity { return &Capacity{max: int64(n)} }

// Enter takes a place, or returns [ErrBusy]. After a nil error, Leave must follow.
func (c *Capacity) Enter() error {
	if c.inFlight.Add(1) <= c.max {
		return nil
	}
	c.inFlight.Add(-1)
	c.rejected.Add(1)
	return ErrBusy
}

// Leave returns a place.
func (c *Capacity) Leave() { c.inFlight.Add(-1) }

// InFlight returns how many places are taken.
func (c *Capacity) InFlight() int64 { return c.inFlight.Load() }

// Rejected returns how many requests found no place.
func (c *Capacity) Rejected() int64 { return c.rejected.Load() }

// Reject counts a request that is rejected for want of another resource.
func (c *Capacity) Reject() { c.rejected.Add(1) }
