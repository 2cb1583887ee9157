package testing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

var policy = weir.Policy{Name: "push", Limits: []weir.Limit{weir.PerMinute(2, "user")}}

func newSender(t *testing.T, opts ...weir.Option) *Sender {
	t.Helper()
	limiter, err := weir.New(policy, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return &Sender{Limiter: limiter, Send: func(string) {}}
}

func TestInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender := newSender(t) // one for each bubble: every bubble begins in 2000
		for i, want := range []bool{true, true, false} {
			if sent, err := sender.Notify(t.Context(), "ann"); err != nil || sent != want {
				t.Errorf("notification %d: sent %t, %v; want %t", i+1, sent, err, want)
			}
		}
		time.Sleep(time.Minute) // takes no real time
		if sent, err := sender.Notify(t.Context(), "ann"); err != nil || !sent {
			t.Errorf("after a minute: sent %t, %v; want true", sent, err)
		}
	})
}

func TestAtChosenInstants(t *testing.T) {
	limiter := newSender(t).Limiter
	nine := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {10 * time.Second, true}, {59 * time.Second, false}, {time.Minute, true}} {
		d, err := limiter.At(nine.Add(c.at)).Allow(context.Background(), weir.K("ann"))
		if err != nil || d.Allowed != c.want {
			t.Errorf("at %v: allowed %t, %v; want %t", c.at, d.Allowed, err, c.want)
		}
	}
}

func TestWithoutTheStore(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory()) // stands for the engine of a store
	sender := newSender(t, weir.WithEngine(fallback.New(store, fallback.Allow)))
	store.Break(weirtest.Down())
	for range 5 {
		if sent, err := sender.Notify(t.Context(), "ann"); err != nil || !sent {
			t.Errorf("sent %t, %v; want every notification sent during the outage", sent, err)
		}
	}
}
