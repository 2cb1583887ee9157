package resp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/engine"
)

// TestEachErrorHasItsCode: each error of a policy or of a reservation has a code. Only errors
// of the command send their own text, and only they count as rejected.
func TestEachErrorHasItsCode(t *testing.T) {
	const down = "-UNAVAILABLE no decision: the store did not answer; try again later, or see the log of weir\r\n"
	for _, c := range []struct {
		err      error
		want     string
		rejected int64
	}{
		{calls.BadInput("no such thing"), "-ERR no such thing\r\n", 1},
		{engine.Input("key", "it is wrong"), "-ERR weir: bad key: it is wrong\r\n", 1},
		{&weir.PolicyError{Policy: "p", Field: "Max", Problem: "it is wrong"}, "-ERR " + (&weir.PolicyError{Policy: "p", Field: "Max", Problem: "it is wrong"}).Error() + "\r\n", 1},
		{weir.ErrOverflow, "-ERR weir: too many units in one history\r\n", 1},
		{weir.ErrSettled, "-SETTLED weir: the reservation is settled already\r\n", 1},
		{weir.ErrExpired, "-EXPIRED weir: the reservation has expired\r\n", 1},
		{weir.ErrFull, "-UNAVAILABLE no decision: the store is full of keys that still count; try again later, or give the store more room\r\n", 0},
		{calls.ErrBusy, "-UNAVAILABLE no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir\r\n", 0},
		{fmt.Errorf("%w: host 10.0.0.7", weir.ErrUnavailable), down, 0},
		{fmt.Errorf("%w: host 10.0.0.7", weir.ErrOutcomeUnknown), down, 0},
		{fmt.Errorf("under a.person: %w: %w", weir.ErrUnreadable, weir.ErrUnavailable), down, 0},
		{errors.New("another error"), down, 0},
	} {
		s := newTestServer(t)
		if got := string(s.fail(nil, c.err)); got != c.want || s.Counts.Rejected.Load() != c.rejected {
			t.Errorf("%v: got %q and %d rejected, want %q and %d", c.err, got, s.Counts.Rejected.Load(), c.want, c.rejected)
		}
	}
}
