package redispeers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestHeldCountsUnits: after three decisions of one key, each form with a log holds three.
func TestHeldCountsUnits(t *testing.T) {
	needs.Redis(t)
	server, err := redisserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	ctx := context.Background()
	c := redisserver.Client(server.Addr)
	t.Cleanup(func() { c.Close() })
	for _, form := range Forms() {
		if err := c.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		decider := form.New(5, time.Hour)
		holder, ok := decider.(Holder)
		if !ok {
			continue
		}
		for _, script := range decider.Scripts() {
			if err := c.ScriptLoad(ctx, script).Err(); err != nil {
				t.Fatal(err)
			}
		}
		last := Request{Key: "key", N: 1}
		for i := range 3 { // apart, because the grid script counts cells
			last.At = time.Now().Add(time.Duration(i-3) * 10 * time.Minute).UnixMicro()
			for _, command := range decider.Commands(last) {
				if err := c.Do(ctx, command...).Err(); err != nil {
					t.Fatalf("%s: %v", form.Name, err)
				}
			}
		}
		held, err := holder.Held(ctx, c, last)
		if err != nil && !errors.Is(err, ErrNoLog) {
			t.Errorf("%s: %v", form.Name, err)
		} else if err == nil && held != 3 {
			t.Errorf("%s: %d units after 3 decisions, want 3", form.Name, held)
		}
	}
}
