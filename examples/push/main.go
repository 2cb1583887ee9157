// Command push sends twelve notifications, all ready at the beginning, to one teacher: at most
// ten in any minute, at least three seconds apart.
//
// It passes its instants, so it takes no time. A service would call limiter.Wait, which
// sleeps for exactly these waits.
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
		Name:   "push-notifications",
		Limits: []weir.Limit{weir.PerMinute(10, "teacher").Apart(3 * time.Second)},
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx, teacher := context.Background(), weir.K("42")
	now := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	for push := 1; push <= 12; {
		d, err := limiter.At(now).Allow(ctx, teacher)
		if err != nil {
			log.Fatal(err)
		}
		if d.Allowed {
			fmt.Printf("%s  push %d sent, %d left in this minute\n", now.Format(time.TimeOnly), push, d.Remaining)
			push++
		} else {
			now = now.Add(d.RetryAfter) // sleep
		}
	}
}
