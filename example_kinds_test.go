package weir_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R16: a Bucket lets Burst units pass at once, and then the rate of Max per Window.
func Example_howDoIAllowABurst() {
	limiter := must(weir.New(weir.Policy{Name: "api", Limits: []weir.Limit{
		{Name: "rate", Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 3, By: []string{"ip"}},
	}}))
	ip := weir.K("192.0.2.7")
	for _, after := range []time.Duration{0, 0, 0, 0, 99 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		d := must(limiter.At(nine.Add(after)).Allow(ctx, ip))
		fmt.Println(after, d.Allowed, "left", d.Remaining, "next after", d.RetryAfter)
	}
	// Output:
	// 0s true left 2 next after 0s
	// 0s true left 1 next after 0s
	// 0s true left 0 next after 100ms
	// 0s false left 0 next after 100ms
	// 99ms false left 0 next after 1ms
	// 100ms true left 0 next after 100ms
	// 1s true left 2 next after 0s
}

// R17: a concurrency limit counts units while they are in use. Done ends a hold and leaves
// the other limits as they are.
func Example_howDoILimitConcurrency() {
	limiter := must(weir.New(weir.Policy{Name: "render", Limits: []weir.Limit{
		{Name: "running", Kind: weir.Concurrency, Max: 2, MaxHold: 30 * time.Second, By: []string{"user"}},
		{Name: "day", Max: 1000, Window: 24 * time.Hour, By: []string{"user"}},
	}}))
	user := weir.K("ann")

	call, d, err := limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("first:", d.Allowed, err)
	_, d, err = limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("second:", d.Allowed, err)
	_, d, err = limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("third:", d.Allowed, d.Limit, err)

	fmt.Println("extended:", call.Extend(ctx))
	fmt.Println("done:", call.Done(ctx))
	fmt.Println("settled twice:", errors.Is(call.Done(ctx), weir.ErrSettled))
	_, d, err = limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("third:", d.Allowed, err)
	used := must(limiter.Count(ctx, user, "day", time.Hour))
	fmt.Println("charged to the day:", used)
	// Output:
	// first: true <nil>
	// second: true <nil>
	// third: false running <nil>
	// extended: <nil>
	// done: <nil>
	// settled twice: true
	// third: true <nil>
	// charged to the day: 3
}
