package serving

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/observe"
)

// TestOutcomeOf: the outcome of a call follows from its operation, units and decision.
func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		op   weir.Op
		n    int64
		d    weir.Decision
		want observe.Outcome
	}{
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 2}, observe.Allowed},
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 1}, observe.Partial},
		{weir.OpAttempt, 2, weir.Decision{Limit: "l"}, observe.Denied},
		{weir.OpAttempt, 2, weir.Decision{}, observe.Peeked}, // other checks were denied
		{weir.OpAttempt, 0, weir.Decision{Allowed: true}, observe.Peeked},
		{weir.OpPeek, 2, weir.Decision{}, observe.Peeked},
		{weir.OpRecord, 2, weir.Decision{Allowed: true, Granted: 2}, observe.Recorded},
		{weir.OpRecord, 0, weir.Decision{Allowed: true}, observe.Peeked},
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 2, Replayed: true}, observe.Repeated},
	} {
		if got := outcomeOf(c.op, c.n, &c.d); got != c.want {
			t.Errorf("op %d of %d units, %+v: %v, want %v", c.op, c.n, c.d, got, c.want)
		}
	}
}
