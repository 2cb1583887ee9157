// Command lastseconds counts failed logins over the last twenty seconds without a
// decision. A history can be counted over any span within its window. Cells of five
// seconds bound the memory, for any number of failures.
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

func main() {
	recent := weir.Per(1000, 10*time.Minute, "user").Named("recent") // Count takes the name
	recent.Cells = 120
	limiter, err := weir.New(weir.Policy{
		Name:   "failed-logins",
		Limits: []weir.Limit{recent},
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx, user := context.Background(), weir.K("ann")
	start := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	failures := []int{1, 2, 8, 9, 10, 11, 12, 31, 58} // seconds after nine
	for second := range 61 {
		at := start.Add(time.Duration(second) * time.Second)
		if slices.Contains(failures, second) {
			if _, err := limiter.At(at).Record(ctx, user, 1); err != nil {
				log.Fatal(err)
			}
		}
		if second%10 != 0 {
			continue
		}
		n, err := limiter.At(at).Count(ctx, user, "recent", 20*time.Second)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s  %d failures in the last 20 seconds%s\n", at.Format(time.TimeOnly), n, alarm(n))
	}
}

// alarm marks a count that needs attention.
func alarm(n int64) string {
	if n > 5 {
		return "  <- alarm"
	}
	return ""
}
