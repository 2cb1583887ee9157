package weir_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

// R15: the fallback's mode decides, and the decision is marked Degraded. Here four
// processes share 10 an hour. While the store is down, each may grant 2 on its own.
func Example_whatIfTheStoreIsDown() {
	for _, mode := range []engine.Outage{fallback.Deny, fallback.Allow, fallback.Share} {
		store := weirtest.NewFaulty(weir.NewMemory()) // in a program: weirredis.New(conn)

		shared := fallback.New(store, mode, fallback.Instances(4))
		limiter, err := weir.New(weir.Policy{Name: "sms", Limits: []weir.Limit{weir.PerHour(10, "phone")}}, weir.WithEngine(shared))
		if err != nil {
			panic(err)
		}

		store.Break(weirtest.Down())
		d, err := limiter.At(nine).AllowN(ctx, weir.K("555-0100"), 2)
		fmt.Println(mode, "2:", d.Allowed, "degraded:", d.Degraded, "error:", err != nil)
		d, err = limiter.At(nine).AllowN(ctx, weir.K("555-0100"), 2)
		fmt.Println(mode, "2 more:", d.Allowed, "degraded:", d.Degraded, "error:", err != nil)
	}
	// Output:
	// Deny 2: false degraded: false error: true
	// Deny 2 more: false degraded: false error: true
	// Allow 2: true degraded: true error: false
	// Allow 2 more: true degraded: true error: false
	// Share 2: true degraded: true error: false
	// Share 2 more: false degraded: true error: false
}

// R15: after ErrUnavailable, yes: nothing was recorded. After ErrOutcomeUnknown only if a
// second charge does no harm, or with an idempotency key (AllowOnce).
func Example_mayAFailedCallBeMadeAgain() {
	store := weirtest.NewFaulty(weir.NewMemory())
	limiter := must(weir.New(weir.Policy{Name: "transfers", Limits: []weir.Limit{weir.PerDay(200_000, "account")}}, weir.WithEngine(fallback.New(store, fallback.Deny, fallback.Timeout(time.Second)))))

	for _, fault := range []weirtest.Fault{weirtest.Down(), weirtest.Lost()} {
		store.Break(fault)
		_, err := limiter.At(nine).AllowN(ctx, weir.K("7"), 50_000)
		switch {
		case errors.Is(err, weir.ErrUnavailable):
			fmt.Println("not recorded; try again later")
		case errors.Is(err, weir.ErrOutcomeUnknown):
			fmt.Println("perhaps recorded; check by hand")
		}
	}

	store.Restore()
	d := must(limiter.At(nine).Peek(ctx, weir.K("7"), 0))
	fmt.Println("left of 200000:", d.Remaining)
	// Output:
	// not recorded; try again later
	// perhaps recorded; check by hand
	// left of 200000: 150000
}

// OnStoreState reports each outage and each recovery, for a log. Status returns counters,
// for metrics.
func Example_howAreOutagesNoticed() {
	store := weirtest.NewFaulty(weir.NewMemory())

	engine := fallback.New(store, fallback.Allow,
		fallback.Timeout(time.Second),
		fallback.FailureThreshold(3),
		fallback.OnStoreState(func(cause error) {
			fmt.Println("the store is down:", cause != nil, "because of:", cause)
		}),
	)

	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(5)}}, weir.WithEngine(engine)))
	store.Break(weirtest.Down())
	for range 10 {
		must(limiter.Allow(ctx, weir.K()))
	}
	fmt.Println("decided without it:", engine.Status().Degraded)
	// Output:
	// the store is down: true because of: weir: the store is unavailable: weirtest: down
	// decided without it: 10
}
