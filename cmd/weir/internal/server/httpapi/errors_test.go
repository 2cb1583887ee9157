package httpapi

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
)

// TestEachErrorHasItsStatus: each error of the core and of package serving has a status. Only
// errors of the request send their own text, and only they count as bad requests.
func TestEachErrorHasItsStatus(t *testing.T) {
	const down = "no decision: the store is unavailable; try again later, or read the log of weir"
	for _, c := range []struct {
		err    error
		status int
		detail string
	}{
		{calls.BadInput("it is wrong"), 400, "it is wrong"},
		{&calls.Problem{Err: calls.ErrMissing, Detail: "no such thing"}, 404, "no such thing"},
		{&calls.Problem{Err: weir.ErrSettled, Detail: "settled"}, 409, "settled"},
		{&calls.Problem{Err: weir.ErrExpired, Detail: "expired"}, 410, "expired"},
		{engine.Input("key", "it is wrong"), 400, "weir: bad key: it is wrong"},
		{weir.ErrOverflow, 400, "weir: too many units in one history"},
		{calls.ErrBusy, 503, "no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir"},
		{weir.ErrFull, 503, "no decision: the store holds as many keys as it may, and all of them still count; try again later, or give the store more room"},
		{fmt.Errorf("%w: host 10.0.0.7", weir.ErrUnavailable), 503, down},
		{fmt.Errorf("%w: host 10.0.0.7", weir.ErrOutcomeUnknown), 503, down},
		{fmt.Errorf("under a.person: %w: %w", weir.ErrUnreadable, weir.ErrUnavailable), 503, down},
		{errors.New("another error"), 503, down},
	} {
		a := API{Config: Config{Errors: &observe.Log{}}}
		bad := int64(1)
		if c.status == 503 {
			bad = 0
		}
		if status, detail := a.problemOf(c.err); status != c.status || detail != c.detail || a.BadRequests.Load() != bad {
			t.Errorf("%v: got %d %q and %d bad requests, want %d %q and %d", c.err, status, detail, a.BadRequests.Load(), c.status, c.detail, bad)
		}
	}
}
