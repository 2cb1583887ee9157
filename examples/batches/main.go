// Command batches sends batches that do not fit, in the three modes: the whole batch waits,
// as many rows as fit proceed, or the denied attempt counts too.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weirlimit/weir"
)

func main() {
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial, weir.CountDenied} {
		fmt.Println(mode)
		run(mode)
	}
}

// run sends a batch of four rows every ten seconds at a limit of ten a minute.
func run(mode weir.Mode) {
	limiter, err := weir.New(weir.Policy{
		Name:   "import",
		Mode:   mode,
		Limits: []weir.Limit{weir.PerMinute(10)},
	})
	if err != nil {
		log.Fatal(err)
	}
	start := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	for s := 0; s <= 70; s += 10 {
		d, err := limiter.At(start.Add(time.Duration(s)*time.Second)).AllowN(context.Background(), weir.K(), 4)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("  %2ds  %d of 4 rows, remaining %2d, four more after %v\n", s, d.Granted, d.Remaining, d.RetryAfter)
	}
}
