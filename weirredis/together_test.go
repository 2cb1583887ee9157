package weirredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// clustered is a connection to a Cluster on which no call may arrive.
type clustered struct{ t *testing.T }

func (c clustered) Clustered() bool { return true }

func (c clustered) Eval(_ context.Context, s *weirredis.Script, keys, _ []string) (string, error) {
	c.t.Errorf("script %s was sent for %q", s.Name, keys)
	return "", errors.New("not expected")
}

// TestTogetherInOneSlot: in a Cluster, calls whose histories are in different slots are
// rejected before anything is sent. The error names the first call in another slot.
func TestTogetherInOneSlot(t *testing.T) {
	e, err := weirredis.New(clustered{t})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "day", Max: 5, Window: time.Hour, By: []string{"user"}}}}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	var calls []weir.Call
	for _, user := range []string{"ann", "ann", "bob"} {
		calls = append(calls, weir.Call{Limiter: l, Key: weir.K(user), Request: weir.Request{N: 1}})
	}
	err = weir.DecideTogether(context.Background(), calls)
	var of *weir.CallError
	if !errors.As(err, &of) || of.Call != 2 || !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "slot") {
		t.Errorf("got %v; want an error of call 2 about slots", err)
	}
}
