// Command transfers lets a new customer send $2,000 a day. Units are whole cents, so each
// transfer takes its amount, and a failed one refunds it.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weirlimit/weir"
)

func main() {
	limiter, err := weir.New(weir.Policy{
		Name:   "transfers",
		Limits: []weir.Limit{weir.PerDay(200_000, "account")},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, account := context.Background(), weir.K("ann")
	morning := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)

	send := func(after time.Duration, cents int64) weir.Decision {
		d, err := limiter.At(morning.Add(after)).AllowN(ctx, account, cents)
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case d.Allowed:
			fmt.Println(dollars(cents), "sent,", dollars(d.Remaining), "left")
		case d.RetryAfter == weir.Never:
			fmt.Println(dollars(cents), "is more than a day's limit")
		default:
			fmt.Println(dollars(cents), "denied,", dollars(d.Remaining), "left; possible in", d.RetryAfter)
		}
		return d
	}

	send(0, 120_000)
	failed := send(time.Hour, 70_050)
	send(2*time.Hour, 15_000)
	send(2*time.Hour, 200_001)

	// The bank rejected the second one.
	back, err := limiter.At(morning.Add(3*time.Hour)).Refund(ctx, account, failed.At, 70_050)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dollars(back), "taken back")
	send(3*time.Hour, 15_000)
	send(4*time.Hour, 65_001)
}

// dollars writes cents as dollars.
func dollars(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
