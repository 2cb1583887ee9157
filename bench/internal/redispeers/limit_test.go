package redispeers

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestEveryContestantLimits: on a new key each contestant grants its limit within a window,
// and no more.
func TestEveryContestantLimits(t *testing.T) {
	needs.Redis(t)
	server, err := redisserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	ctx := context.Background()
	for _, p := range All() {
		c := redisserver.Client(server.Addr)
		if err := c.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		c.Close()
		const limit = 5
		l, err := p.Open(server.Addr, limit, time.Hour)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		for i := range 2 * limit {
			if got, err := l.Allow(ctx, "key"); got != (i < limit) || err != nil {
				t.Errorf("%s, limit %d: attempt %d got %v, %v, want %v", p.Name, limit, i+1, got, err, i < limit)
			}
		}
		if got, err := l.Allow(ctx, "other"); !got || err != nil {
			t.Errorf("%s: the first attempt of another key got %v, %v, want true", p.Name, got, err)
		}
		l.Close()
	}
}
