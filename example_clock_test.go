package weir_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R1: the engine's own clock, read once per decision, or the instant that the caller
// passes. A Request without an instant is decided now. Decision.At is the instant of the decision.
func Example_whichClockDecides() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(1)}}))

	now := must(limiter.Allow(ctx, weir.K()))
	fmt.Println("engine's clock, read once:", time.Since(now.At) < time.Hour)

	again := must(limiter.Decide(ctx, weir.K(), weir.Request{N: 1})) // no instant: now
	fmt.Println("the same clock:", !again.At.Before(now.At), again.At.Sub(now.At) < time.Hour)

	passed := must(limiter.At(nine.AddDate(1, 0, 0)).Allow(ctx, weir.K()))
	fmt.Println("caller's instant:", passed.At.UTC().Format(time.DateTime))
	// Output:
	// engine's clock, read once: true
	// the same clock: true true
	// caller's instant: 2027-01-05 09:00:00
}

// R2: if the clock is behind by less than a second, the decision uses the instant of the
// newest entry. If it is further behind, it was corrected, and entries of the future count
// from now on.
func Example_whatIfTheClockStepsBack() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(2)}}))
	try := func(after time.Duration) {
		d := must(limiter.At(nine.Add(after)).Allow(ctx, weir.K()))
		fmt.Println("clock at", nine.Add(after).Format("04:05.0"), "decided at", d.At.UTC().Format("04:05.0"),
			d.Allowed, "wait", d.RetryAfter)
	}

	try(10 * time.Second)
	try(9600 * time.Millisecond) // 0.4 s behind: decided at the newest entry's instant
	try(5 * time.Second)         // 5 s behind: corrected, both entries count from here
	try(65 * time.Second)        // a correction denies wrongly for at most one window
	// Output:
	// clock at 00:10.0 decided at 00:10.0 true wait 0s
	// clock at 00:09.6 decided at 00:10.0 true wait 1m0s
	// clock at 00:05.0 decided at 00:05.0 false wait 1m0s
	// clock at 01:05.0 decided at 01:05.0 true wait 0s
}
