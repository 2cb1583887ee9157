package weir_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R18: a caller that may wait gets its instant with its one call, and later ones get later instants.
// Wait makes that call, sleeps until then, and gives the units back if its context ends.
func Example_howDoIWaitInOrder() {
	limiter := must(weir.New(weir.Policy{Name: "mail", Limits: []weir.Limit{weir.PerMinute(2)}}))
	attempt := func(name string, after, maxWait time.Duration) (start time.Time) {
		request := weir.Request{N: 1, MaxWait: maxWait}
		d := must(limiter.At(nine.Add(after)).Decide(ctx, weir.K(), request))
		fmt.Println(name, d)
		return d.At.Add(d.StartAfter)
	}

	attempt("ann", 0, time.Hour)
	attempt("bob", 10*time.Second, time.Hour)
	attempt("cid", 20*time.Second, time.Hour) // when ann's unit leaves
	start := attempt("dan", 21*time.Second, time.Hour)
	attempt("eve", 22*time.Second, time.Minute) // does not wait for so long
	attempt("fay", 23*time.Second, 0)           // does not wait

	// dan leaves before his instant, and the next one that fits gets it.
	taken := must(limiter.At(nine.Add(30*time.Second)).Refund(ctx, weir.K(), start, 1))
	fmt.Println("taken back:", taken)
	attempt("gil", 31*time.Second, time.Hour)
	// Output:
	// ann allowed: 1 left
	// bob allowed: 0 left
	// cid allowed in 40s
	// dan allowed in 49s
	// eve denied by limit "limit": 4 of 2 used in the last minute; room again in 1m38s
	// fay denied by limit "limit": 4 of 2 used in the last minute; room again in 1m37s
	// taken back: 1
	// gil allowed in 39s
}
