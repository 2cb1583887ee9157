package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// nine is the first instant of the examples. They pass their instants, so that every run
// prints the same. A program calls Allow and AllowN, which read the engine's clock.
var nine = time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)

var ctx = context.Background()

// must keeps the examples short; a program should handle the error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// May teacher 42 be sent one more push?
func Example() {
	limiter, err := weir.New(weir.Policy{
		Name:   "push-notifications",
		Limits: []weir.Limit{weir.PerMinute(10, "teacher")},
	})
	d, err := limiter.Allow(ctx, weir.K("42"))
	if !d.Allowed {
		// try again after d.RetryAfter: then it passes, one microsecond sooner it does not
	}

	fmt.Println("first push:", d.Allowed, d.Remaining, "left")
	d, err = limiter.AllowN(ctx, weir.K("42"), 10)
	fmt.Println("ten more:", d.Allowed, err)
	d, err = limiter.Allow(ctx, weir.K("43"))
	fmt.Println("another teacher:", d.Allowed, err)
	// Output:
	// first push: true 9 left
	// ten more: false <nil>
	// another teacher: true <nil>
}
