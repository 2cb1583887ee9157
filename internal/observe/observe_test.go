package observe

import (
	"testing"

	"github.com/weirlimit/weir"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		op   weir.Op
		n    int64
		d    weir.Decision
		want Outcome
	}{
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 2}, Allowed},
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 1}, Partial},
		{weir.OpAttempt, 2, weir.Decision{}, Denied},
		{weir.OpAttempt, 0, weir.Decision{Allowed: true}, Peeked},
		{weir.OpPeek, 2, weir.Decision{}, Peeked},
		{weir.OpRecord, 2, weir.Decision{Allowed: true, Granted: 2}, Recorded},
		{weir.OpRecord, 0, weir.Decision{Allowed: true}, Peeked},
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 2, Replayed: true}, Repeated},
	} {
		if got := Of(c.op, c.n, &c.d); got != c.want {
			t.Errorf("op %d of %d units, %+v: %v, want %v", c.op, c.n, c.d, got, c.want)
		}
	}
}

// Names are labels of metrics: each is its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range Protocol(Protocols) {
		seen[f.String()] = true
	}
	for o := range Outcome(Outcomes) {
		seen[o.String()] = true
	}
	if len(seen) != Protocols+Outcomes || seen[""] {
		t.Errorf("%d names of %d, or an empty one: %v", len(seen), Protocols+Outcomes, seen)
	}
}
