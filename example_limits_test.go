package weir_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R5: give the limit a MinInterval. A grant at exactly that distance passes.
func Example_howDoIKeepGrantsApart() {
	limiter := must(weir.New(weir.Policy{Name: "push", Limits: []weir.Limit{
		{Name: "teacher", Max: 10, Window: time.Minute, MinInterval: 3 * time.Second, By: []string{"teacher"}},
	}}))
	for _, after := range []time.Duration{0, 3*time.Second - time.Microsecond, 3 * time.Second} {
		d := must(limiter.At(nine.Add(after)).Allow(ctx, weir.K("42")))
		fmt.Println(after, d.Allowed, "next after", d.RetryAfter)
	}
	// Output:
	// 0s true next after 3s
	// 2.999999s false next after 1µs
	// 3s true next after 3s
}

// R7: give the limit of calls a Cost. An attempt of n tokens is one call.
func Example_howDoICountCallsAndTokens() {
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{
		{Name: "calls", Max: 3, Window: time.Minute, By: []string{"user"}, Cost: 1},
		{Name: "tokens", Max: 1000, Window: time.Minute, By: []string{"user"}},
	}}))
	for i, tokens := range []int64{700, 400, 200, 1, 1} {
		d := must(limiter.At(nine.Add(time.Duration(i)*time.Second)).AllowN(ctx, weir.K("ann"), tokens))
		fmt.Println(tokens, d.Allowed, d.Limit, d.RetryAfter)
	}
	// Output:
	// 700 true  1m0s
	// 400 false tokens 59s
	// 200 true  58s
	// 1 true  57s
	// 1 false calls 56s
}

// R7: no. An attempt that one limit denies is not charged to the other. The decision names
// the limit that denied.
func Example_canADenialChargeTheOtherLimit() {
	limiter := must(weir.New(weir.Policy{Name: "slack-alerts", Limits: []weir.Limit{
		{Name: "channel", Max: 3, Window: 30 * time.Minute},
		{Name: "category", Max: 2, Window: 30 * time.Minute, By: []string{"category"}},
	}}))
	for i, category := range []string{"disk", "disk", "disk", "login", "login"} {
		at := nine.Add(time.Duration(i) * time.Minute)
		d := must(limiter.At(at).Allow(ctx, weir.K(category)))
		if d.Allowed {
			fmt.Println(category, "sent")
		} else {
			fmt.Println(category, "held back by", d.Limit)
		}
	}
	// Output:
	// disk sent
	// disk sent
	// disk held back by category
	// login sent
	// login held back by channel
}

// R12: the history stays, and the new numbers apply from the next decision on. A raised
// limit never denies an attempt that the old one would have granted. A lowered one grants
// nothing until enough units have left.
func Example_whatHappensWhenALimitChanges() {
	engine := weir.NewMemory()
	withMax := func(most int64) *weir.Limiter {
		return must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(most)}}, weir.WithEngine(engine)))
	}
	must(withMax(5).At(nine).AllowN(ctx, weir.K(), 5))

	at := nine.Add(10 * time.Second)
	for _, most := range []int64{5, 6, 2} {
		d := must(withMax(most).At(at).Peek(ctx, weir.K(), 1))
		fmt.Println("max", most, d.Allowed, "remaining", d.Remaining, "retry after", d.RetryAfter)
	}
	// Output:
	// max 5 false remaining 0 retry after 50s
	// max 6 true remaining 1 retry after 0s
	// max 2 false remaining -3 retry after 50s
}
