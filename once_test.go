package weir

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestOnceRejectsBadInput: ids are checked before the engine decides (R14).
func TestOnceRejectsBadInput(t *testing.T) {
	l := mustNew(t, perUser(10, time.Second))
	for name, call := range map[string]func() (Decision, error){
		"no id":    func() (Decision, error) { return l.AllowOnce(ctx, K("42"), 1, "") },
		"too long": func() (Decision, error) { return l.AllowOnce(ctx, K("42"), 1, fmt.Sprintf("%*d", MaxIDBytes+1, 1)) },
		"too long, at all": func() (Decision, error) {
			return l.Decide(ctx, K("42"), Request{N: 1, ID: fmt.Sprintf("%*d", MaxIDBytes+1, 1)})
		},
	} {
		if d, err := call(); !errors.Is(err, errID) || d != (Decision{}) {
			t.Errorf("%s: got %+v, %v, want bad input in the id", name, d, err)
		}
	}
	if d, err := l.Decide(ctx, K("42"), Request{Op: OpRecord, N: 2}); err != nil || d.Remaining != 8 {
		t.Errorf("a record of 2 by Decide: %+v, %v", d, err)
	}
	var zero Limiter
	if _, err := zero.AllowOnce(ctx, K(), 1, "x"); err == nil {
		t.Error("the zero Limiter decided")
	}
}
