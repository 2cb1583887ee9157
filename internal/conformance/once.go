package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// once makes many operations, twice as many as fit, each in several concurrent goroutines.
// It returns a report of the first operation that was charged twice or got different
// answers, or "".
func once(e engine.Engine, c Config) string {
	const fit, operations = 100, 200
	report := func(format string, args ...any) string {
		return fmt.Sprintf("seed %d: %s\n  %s", c.Seed, fmt.Sprintf(format, args...), quoteRule(15))
	}
	limiter, err := weir.New(weir.Policy{Name: freshPrefix() + "once", Limits: []weir.Limit{
		{Name: "all", Max: fit, Window: time.Hour},
		{Name: "user", Max: 2 * fit, Window: time.Hour, By: []string{"user"}},
	}}, weir.WithEngine(e))
	if err != nil {
		return report("%v", err)
	}
	if !c.claims(limiter.Compiled(), "id") {
		return ""
	}
	answers, err := callConcurrently(limiter, operations, c)
	if err != nil {
		return report("%v", err)
	}
	charged := 0
	for id, all := range answers {
		for i := range all {
			if err := c.checkMark(&all[i], weir.AllOrNothing, "an id"); err != nil {
				return report("operation %d: %v", id, err)
			}
		}
		granted, problem := sameGrant(all)
		if problem != "" {
			return report("operation %d: %s", id, problem)
		}
		charged += granted
	}
	count, err := limiter.Count(context.Background(), weir.K("ann"), "all", time.Hour)
	if charged != fit || count != fit || err != nil {
		return report("%d of %d operations were granted and %d units recorded (%v), want %d", charged, operations, count, err, fit)
	}
	return ""
}

// callConcurrently makes every operation in every goroutine, in random order. It returns
// all answers by operation.
func callConcurrently(limiter *weir.Limiter, operations int, c Config) ([][]weir.Decision, error) {
	answers := make([][]weir.Decision, operations)
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	for g := range max(2, c.Goroutines/2) {
		r := rand.New(rand.NewPCG(c.Seed, 1<<33+uint64(g/2))) // two goroutines have the same order
		all.Go(func() {
			for _, id := range r.Perm(operations) {
				d, err := limiter.AllowOnce(context.Background(), weir.K("ann"), 1, fmt.Sprint("operation ", id))
				mu.Lock()
				answers[id] = append(answers[id], d)
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answers, failed
}

// sameGrant returns 1 if the operation was granted once and then replayed, 0 if it was
// always denied, or a problem.
func sameGrant(answers []weir.Decision) (granted int, problem string) {
	first := weir.Decision{}
	for _, d := range answers {
		if d.Allowed && !d.Replayed {
			granted++
			first = d
		}
	}
	if granted > 1 {
		return granted, fmt.Sprintf("it was charged %d times", granted)
	}
	first.Replayed = true
	for _, d := range answers {
		if d.Replayed && !(granted == 1 && d.At.Equal(first.At) && d.Remaining == first.Remaining && d.Granted == first.Granted) {
			return granted, fmt.Sprintf("the answers were %#v and %#v", first, d)
		}
		if !d.Replayed && !d.Allowed && granted == 1 {
			return granted, fmt.Sprintf("it was granted once and denied once: %#v", d)
		}
	}
	return granted, ""
}
