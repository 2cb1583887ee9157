package weirredis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// TestTogetherInOneSlot: in a Cluster, calls whose histories are in different slots are
// rejected before anything is sent. The error names the first call in another slot.
func TestTogetherInOneSlot(t *testing.T) {
	conn := clusterConn{&cannedConn{}}
	l := limiter(t, newEngine(t, conn), "p", weir.AllOrNothing, perUser(5, time.Hour))
	var calls []weir.Call
	for _, user := range []string{"ann", "ann", "bob"} {
		calls = append(calls, weir.Call{Limiter: l, Key: weir.K(user), Request: weir.Request{N: 1}})
	}
	err := weir.DecideTogether(ctx, calls)
	var of *weir.CallError
	if !errors.As(err, &of) || of.Call != 2 || !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "slot") || conn.calls > 0 {
		t.Errorf("got %v after %d calls; want an error of call 2 about slots, and no call", err, conn.calls)
	}
}
