package calls

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
)

// TestEachErrorHasItsAnswer: each error of the core and of package reserve has a status and a
// code. Only errors of the request send their own text, and only they count as bad input.
func TestEachErrorHasItsAnswer(t *testing.T) {
	const down = "no decision: the store is unavailable; try again later, or read the log of weir"
	wrong := &weir.PolicyError{Policy: "p", Field: "Max", Problem: "it is wrong"}
	for _, c := range []struct {
		err    error
		status int
		code   string
		text   string
	}{
		{BadInput("it is wrong"), 400, "ERR", "it is wrong"},
		{&Problem{Err: ErrMissing, Detail: "no such thing"}, 404, "ERR", "no such thing"},
		{&Problem{Err: weir.ErrSettled, Detail: "settled"}, 409, "SETTLED", "settled"},
		{&Problem{Err: weir.ErrExpired, Detail: "expired"}, 410, "EXPIRED", "expired"},
		{engine.Input("key", "it is wrong"), 400, "ERR", "weir: bad key: it is wrong"},
		{wrong, 400, "ERR", wrong.Error()},
		{weir.ErrOverflow, 400, "ERR", "weir: too many units in one history"},
		{ErrBusy, 503, "UNAVAILABLE", "no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir"},
		{weir.ErrFull, 503, "UNAVAILABLE", "no decision: the store is full, and forgets nothing that still counts; try again later, or give the store more room"},
		{fmt.Errorf("%w: host 10.0.0.7", weir.ErrUnavailable), 503, "UNAVAILABLE", down},
		{fmt.Errorf("%w: host 10.0.0.7", weir.ErrOutcomeUnknown), 503, "UNAVAILABLE", down},
		{fmt.Errorf("under a.person: %w: %w", weir.ErrUnreadable, weir.ErrUnavailable), 503, "UNAVAILABLE", down},
		{errors.New("another error"), 503, "UNAVAILABLE", down},
	} {
		var bad atomic.Int64
		want := int64(1)
		if c.status == 503 {
			want = 0
		}
		f := Fail(c.err, &bad, &observe.Log{})
		if f.Status != c.status || f.Code != c.code || f.Text != c.text || bad.Load() != want {
			t.Errorf("%v: got %+v and %d bad inputs, want %d %s %q and %d", c.err, f, bad.Load(), c.status, c.code, c.text, want)
		}
	}
}
