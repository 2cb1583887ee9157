package weir_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R4: nothing. A caller that retries all the time is admitted at the same instant as one
// that waits. A peek costs nothing either.
func Example_doesARefusalCostAnything() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(1)}}))
	must(limiter.At(nine).Allow(ctx, weir.K()))
	for s := range 59 {
		must(limiter.At(nine.Add(time.Duration(1+s)*time.Second)).Allow(ctx, weir.K()))
	}

	after := limiter.At(nine.Add(time.Minute))
	fmt.Println("peek:", must(after.Peek(ctx, weir.K(), 1)).Allowed)
	fmt.Println("attempt:", must(after.AllowN(ctx, weir.K(), 1)).Allowed)
	// Output:
	// peek: true
	// attempt: true
}

// R6: it depends on the mode. AllOrNothing grants nothing, Partial as many units as fit.
// CountDenied grants nothing and records the attempt.
func Example_whatHappensToABatchThatDoesNotFit() {
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial, weir.CountDenied} {
		limiter := must(weir.New(weir.Policy{Name: "import", Mode: mode, Limits: []weir.Limit{weir.PerMinute(5)}}))
		must(limiter.At(nine).AllowN(ctx, weir.K(), 3))
		d := must(limiter.At(nine.Add(time.Second)).AllowN(ctx, weir.K(), 3))
		fmt.Println(mode, "granted", d.Granted, "of 3, remaining", d.Remaining, "retry after", d.RetryAfter)
	}
	// Output:
	// AllOrNothing granted 0 of 3, remaining 2 retry after 59s
	// Partial granted 2 of 3, remaining 0 retry after 59s
	// CountDenied granted 0 of 3, remaining -1 retry after 1m0s
}
