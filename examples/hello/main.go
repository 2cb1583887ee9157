// Command hello is the smallest program with Weir: at most two a minute for each
// user.
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
		Name:   "hello",
		Limits: []weir.Limit{weir.PerMinute(2, "user")},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), weir.K("ann"))
		if err != nil {
			log.Fatal(err) // no decision was possible
		}
		if d.Allowed {
			fmt.Println("allowed, left:", d.Remaining)
		} else {
			fmt.Println("denied, try again in", d.RetryAfter.Round(time.Second))
		}
	}
}
