// Command slack keeps an alert channel readable: at most 100 messages in any half hour, and
// at most 10 of one category. Both limits are decided in one step: a message that the
// category denies is not charged to the channel. The limits have names, because the program prints
// which of them denied.
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
		Name: "slack-alerts",
		Limits: []weir.Limit{
			weir.Per(100, 30*time.Minute).Named("channel"),
			weir.Per(10, 30*time.Minute, "category").Named("category"),
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	// A bad night: thirteen services send up to thirty alerts each within minutes.
	ctx, now := context.Background(), time.Date(2026, time.January, 5, 3, 0, 0, 0, time.UTC)
	total := 0
	for service := 1; service <= 13; service++ {
		category := fmt.Sprintf("service-%02d", service)
		sent, held := 0, map[string]int{}
		for range 4 + 2*service {
			now = now.Add(time.Second)
			d, err := limiter.At(now).Allow(ctx, weir.K(category))
			if err != nil {
				log.Fatal(err)
			}
			if d.Allowed {
				sent++
			} else {
				held[d.Limit]++
			}
		}
		total += sent
		fmt.Printf("%s  %2d sent, held back: %2d by category, %2d by channel\n",
			category, sent, held["category"], held["channel"])
	}
	fmt.Println(total, "messages in the channel")
}
