// Command twice offers the same attempts to a fixed window, to a token bucket and to Weir,
// all meant as "5 per minute". It prints the most that each grants in any minute. Weir has
// fixed windows too, for limits that follow the calendar.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weirlimit/weir"
)

const (
	most   = 5
	window = time.Minute
)

// A decider reports whether an attempt is granted at an instant.
type decider func(at time.Time) bool

func main() {
	for _, limiter := range []struct {
		name  string
		allow decider
	}{
		{"fixed window", fixedWindow()},
		{"token bucket", tokenBucket()},
		{"weir, fixed", weirWith(weir.KindFixed)},
		{"weir", weirWith(weir.KindRolling)},
	} {
		granted := offer(limiter.allow)
		fmt.Printf("%-12s  at most %2d in any minute; first minute:", limiter.name, busiest(granted))
		for _, at := range granted {
			if at.Before(granted[0].Add(window)) {
				fmt.Print(" ", at.Format("04:05.0"))
			}
		}
		fmt.Println()
	}
}

// fixedWindow counts from the start of each minute of the clock.
func fixedWindow() decider {
	count := map[time.Time]int{}
	return func(at time.Time) bool {
		count[at.Truncate(window)]++
		return count[at.Truncate(window)] <= most
	}
}

// tokenBucket holds five tokens and gains one every twelve seconds.
func tokenBucket() decider {
	const every = window / most
	tokens, gained := most, time.Time{}
	return func(at time.Time) bool {
		for ; tokens < most && !at.Before(gained.Add(every)); tokens++ {
			gained = gained.Add(every)
		}
		if tokens == most {
			gained = at
		}
		if tokens == 0 {
			return false
		}
		tokens--
		return true
	}
}

// weirWith returns a decider of Weir with that kind of window.
func weirWith(kind weir.Kind) decider {
	limit := weir.Per(most, window)
	limit.Kind = kind
	limiter, err := weir.New(weir.Policy{
		Name:   "five-per-minute",
		Limits: []weir.Limit{limit},
	})
	if err != nil {
		log.Fatal(err)
	}
	return func(at time.Time) bool {
		d, err := limiter.At(at).Allow(context.Background(), weir.K())
		if err != nil {
			log.Fatal(err)
		}
		return d.Allowed
	}
}

// offer makes an attempt every tenth of a second for three minutes, from two
// seconds before the minute on, and returns the instants of the grants.
func offer(allow decider) []time.Time {
	start := time.Date(2026, time.January, 5, 9, 0, 58, 0, time.UTC)
	var granted []time.Time
	for at := start; at.Before(start.Add(3 * window)); at = at.Add(100 * time.Millisecond) {
		if allow(at) {
			granted = append(granted, at)
		}
	}
	return granted
}

// busiest returns the most instants within any window.
func busiest(instants []time.Time) int {
	best := 0
	for i, first := range instants {
		n := 0
		for _, at := range instants[i:] {
			if at.Before(first.Add(window)) {
				n++
			}
		}
		best = max(best, n)
	}
	return best
}
