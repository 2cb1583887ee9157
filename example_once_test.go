package weir_test

import (
	"errors"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

// R15: an operation with an idempotency key can be repeated until it is answered, and is
// charged once.
func ExampleLimiter_AllowOnce() {
	store := weirtest.NewFaulty(weir.NewMemory()) // in a program: weirredis.New(conn)
	limiter := must(weir.New(weir.Policy{Name: "transfers", Limits: []weir.Limit{weir.PerDay(200_000, "account")}}, weir.WithEngine(fallback.New(store, fallback.FailClosed))))

	store.Break(weirtest.Lost()) // the store records, and its answer is lost
	id := "transfer-4711"        // chosen once, before the first call
	d, err := limiter.AllowOnce(ctx, weir.K("7"), 50_000, id)
	for range 5 {
		if !errors.Is(err, weir.ErrUnknownFate) && !errors.Is(err, weir.ErrUnavailable) {
			break
		}
		fmt.Println("no answer; retry")
		store.Mend() // in a program: wait a little
		d, err = limiter.AllowOnce(ctx, weir.K("7"), 50_000, id)
	}
	fmt.Println("allowed:", d.Allowed, "replayed:", d.Replayed, "left of 200000:", d.Remaining, "error:", err)
	// Output:
	// no answer; retry
	// allowed: true replayed: true left of 200000: 150000 error: <nil>
}
