package main

import (
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestMigratingXTimeRate runs a map of limiters of x/time/rate, from which docs/migrating.md leads.
// TestTimingsCatchABucket has the numbers of its table.
func TestMigratingXTimeRate(t *testing.T) {
	limiters := map[string]*rate.Limiter{}
	allow := func(user string) bool {
		if limiters[user] == nil {
			limiters[user] = rate.NewLimiter(rate.Every(3*time.Second), 20)
		}
		return limiters[user].Allow()
	}
	fmt.Println(allow("ann"))

	for range 19 {
		if !allow("ann") {
			t.Fatal("one of the first 20 attempts is denied")
		}
	}
}

// TestMigratingRedisRate runs redis_rate, from which docs/migrating.md leads, and shows that more than
// 20 pass in a second at 20 a second.
func TestMigratingRedisRate(t *testing.T) {
	needs.Redis(t)
	server, err := redisserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	ctx := t.Context()

	limiter := redis_rate.NewLimiter(client)
	res, err := limiter.Allow(ctx, "user:ann", redis_rate.PerMinute(20))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Allowed > 0, res.Remaining, res.RetryAfter)

	if res.Allowed != 1 || res.Remaining != 19 {
		t.Errorf("the first attempt has %d granted and %d left, want 1 and 19", res.Allowed, res.Remaining)
	}
	for try := range 20 { // a stall of this machine may fill a second
		begun, granted := time.Now(), 0
		for granted <= 20 {
			res, err := limiter.Allow(ctx, fmt.Sprint("try:", try), redis_rate.PerSecond(20))
			if err != nil {
				t.Fatal(err)
			}
			granted += res.Allowed
		}
		if took := time.Since(begun); took < time.Second {
			t.Logf("redis_rate: %d in %v at a limit of 20 a second", granted, took)
			return
		}
	}
	t.Error("redis_rate never lets more than 20 pass in a second")
}
