// Command sms sends login codes: at most ten text messages a day to one phone. A day is
// any twenty-four hours, so no phone gets twenty around midnight.
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
		Name:   "sms",
		Limits: []weir.Limit{weir.PerDay(10, "phone")},
	})
	if err != nil {
		log.Fatal(err)
	}

	// One user requests a code every ten minutes, from 22:30 on.
	ctx, phone := context.Background(), weir.K("+1 555 0100")
	now := time.Date(2026, time.January, 5, 22, 30, 0, 0, time.UTC)
	for range 12 {
		d, err := limiter.At(now).Allow(ctx, phone)
		if err != nil {
			log.Fatal(err)
		}
		if d.Allowed {
			fmt.Println(now.Format("Mon 15:04"), "code sent")
		} else {
			fmt.Println(now.Format("Mon 15:04"), "no code; the next one is possible on", now.Add(d.RetryAfter).Format("Mon 15:04"))
		}
		now = now.Add(10 * time.Minute)
	}
}
