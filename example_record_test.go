package weir_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R10: Record adds units without a decision. Room may go below zero; attempts are then
// denied until it is back.
func Example_whatIfTheCostIsKnownOnlyAfterwards() {
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerMinute(1000, "tenant")}}))
	tenant := weir.K("acme")

	d := must(limiter.At(nine).AllowN(ctx, tenant, 600)) // the estimate
	fmt.Println("estimate granted:", d.Granted, "remaining", d.Remaining)

	d = must(limiter.At(nine.Add(2*time.Second)).Record(ctx, tenant, 700)) // the cost beyond the estimate
	fmt.Println("recorded:", d.Granted, "remaining", d.Remaining)

	d = must(limiter.At(nine.Add(3*time.Second)).Peek(ctx, tenant, 600))
	fmt.Println("the next 600:", d.Allowed, "retry after", d.RetryAfter)
	// Output:
	// estimate granted: 600 remaining 400
	// recorded: 700 remaining -300
	// the next 600: false retry after 59s
}

// R10: Refund takes units back from the entry granted at the decision's instant, never
// more than the entry has, and none after its window.
func Example_howDoIGiveUnitsBack() {
	limiter := must(weir.New(weir.Policy{Name: "sms", Limits: []weir.Limit{weir.PerDay(10, "phone")}}))
	phone := weir.K("+1 555 0100")
	granted := must(limiter.At(nine).AllowN(ctx, phone, 4))

	later := limiter.At(nine.Add(time.Minute))
	fmt.Println("took back", must(later.Refund(ctx, phone, granted.At, 3)))
	fmt.Println("took back", must(later.Refund(ctx, phone, granted.At, 3)))
	fmt.Println("remaining", must(later.Peek(ctx, phone, 1)).Remaining)
	// Output:
	// took back 3
	// took back 1
	// remaining 10
}
