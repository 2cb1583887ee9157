package calls

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
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

// IsBadInput reports whether err concerns the request, not the store.
func IsBadInput(err error) bool {
	var p *Problem
	return errors.As(err, &p) || answer.IsBadInput(err)
}
