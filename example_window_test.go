package weir_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R3: exactly one window after its grant, not a microsecond sooner.
func Example_whenDoesAUnitComeBack() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(1)}}))
	for _, after := range []time.Duration{0, time.Minute - time.Microsecond, time.Minute} {
		d := must(limiter.At(nine.Add(after)).Allow(ctx, weir.K()))
		fmt.Println(after, d.Allowed)
	}
	// Output:
	// 0s true
	// 59.999999s false
	// 1m0s true
}

// R3: a fixed window returns all units at its edge, so up to 2 * Max passes across it. A
// window of KindFixed ends with the minute, one of KindFixedFromFirst a minute after its first unit.
func Example_whatIfTheWindowIsFixed() {
	for _, kind := range []weir.Kind{weir.KindRolling, weir.KindFixed, weir.KindFixedFromFirst} {
		limit := weir.PerMinute(5)
		limit.Kind = kind
		limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{limit}}))
		must(limiter.At(nine.Add(30*time.Second)).Allow(ctx, weir.K()))
		d := must(limiter.At(nine.Add(59*time.Second)).AllowN(ctx, weir.K(), 4))
		again := must(limiter.At(nine.Add(60*time.Second)).AllowN(ctx, weir.K(), 5))
		fmt.Printf("%-14v full at 9:00:59, empty in %v; five more at 9:01:00: %v\n", kind, d.ResetAfter, again.Allowed)
	}
	// Output:
	// Rolling        full at 9:00:59, empty in 1m0s; five more at 9:01:00: false
	// Fixed          full at 9:00:59, empty in 1s; five more at 9:01:00: true
	// FixedFromFirst full at 9:00:59, empty in 31s; five more at 9:01:00: false
}

// R8: exactly RetryAfter, if no other call takes the units first.
func Example_howLongMustIWait() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(3)}}))
	for _, s := range []time.Duration{0, 10, 20} {
		must(limiter.At(nine.Add(s*time.Second)).Allow(ctx, weir.K()))
	}

	// Two units need the first and the second grant to leave.
	at := nine.Add(30 * time.Second)
	d := must(limiter.At(at).AllowN(ctx, weir.K(), 2))
	fmt.Println("wait", d.RetryAfter, "empty in", d.ResetAfter)

	sooner := must(limiter.At(at.Add(d.RetryAfter-time.Microsecond)).AllowN(ctx, weir.K(), 2))
	then := must(limiter.At(at.Add(d.RetryAfter)).AllowN(ctx, weir.K(), 2))
	fmt.Println("one microsecond sooner:", sooner.Allowed)
	fmt.Println("then:", then.Allowed)
	// Output:
	// wait 40s empty in 50s
	// one microsecond sooner: false
	// then: true
}

// R8: more units than Max never fit. RetryAfter is then Never, which is longer than any other
// wait. So a program that compares it with its budget gives up, and needs no special case.
func Example_canItEverFit() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(3)}}))
	d := must(limiter.At(nine).AllowN(ctx, weir.K(), 4))
	budget := 365 * 24 * time.Hour
	fmt.Println("allowed:", d.Allowed, "never:", d.RetryAfter == weir.Never)
	fmt.Println("within the budget:", d.RetryAfter <= budget)
	// Output:
	// allowed: false never: true
	// within the budget: false
}

// R9: with six cells a minute, a unit counts from the end of its ten seconds. It comes back
// up to one cell later, never sooner.
func Example_whatDoCellsCost() {
	for _, cells := range []int{0, 6, 60} {
		limit := weir.PerMinute(10)
		limit.Cells = cells
		limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{limit}}))
		d := must(limiter.At(nine.Add(4500*time.Millisecond)).AllowN(ctx, weir.K(), 10))
		fmt.Println("cells:", cells, "room again after", d.ResetAfter)
	}
	// Output:
	// cells: 0 room again after 1m0s
	// cells: 6 room again after 1m5.5s
	// cells: 60 room again after 1m0.5s
}

// R11: Count looks back over any span within the window.
func Example_howManyInTheLastSeconds() {
	limiter := must(weir.New(weir.Policy{Name: "logins", Limits: []weir.Limit{weir.PerHour(1000, "user")}}))
	user := weir.K("ann")
	for _, s := range []time.Duration{0, 5, 30, 31, 49} {
		must(limiter.At(nine.Add(s*time.Second)).Record(ctx, user, 1))
	}

	now := limiter.At(nine.Add(50 * time.Second))
	for _, last := range []time.Duration{time.Second, 20 * time.Second, 45 * time.Second, time.Hour} {
		fmt.Println("last", last, "has", must(now.Count(ctx, user, "limit", last)))
	}
	// Output:
	// last 1s has 0
	// last 20s has 2
	// last 45s has 3
	// last 1h0m0s has 5
}
