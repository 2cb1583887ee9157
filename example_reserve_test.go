package weir_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R10: a reservation is granted before the use and settled once after it, with the units
// really used. Units beyond the reservation are recorded, and room may go below zero.
func Example_howDoIReserveAndSettle() {
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerHour(1000, "tenant")}}))
	tenant := weir.K("acme")

	answer, d, err := limiter.Reserve(ctx, tenant, weir.Request{N: 600, TTL: 5 * time.Minute}) // an estimate
	fmt.Println("reserved:", d.Granted, "remaining", d.Remaining, err)

	_, d, err = limiter.Reserve(ctx, tenant, weir.Request{N: 600})
	fmt.Println("another 600:", d.Allowed, err)

	err = answer.Commit(ctx, 250) // units really used
	fmt.Println("used 250:", err, "remaining", must(limiter.Peek(ctx, tenant, 1)).Remaining)

	err = answer.Cancel(ctx)
	fmt.Println("settled twice:", errors.Is(err, weir.ErrSettled), "remaining", must(limiter.Peek(ctx, tenant, 1)).Remaining)
	// Output:
	// reserved: 600 remaining 400 <nil>
	// another 600: false <nil>
	// used 250: <nil> remaining 750
	// settled twice: true remaining 750
}
