package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// R14: a value out of range, or a key with the wrong number of values. The error names the
// input, the place and the valid range. No decision is made, and nothing changes.
func Example_whatIsBadInput() {
	_, err := weir.New(weir.Policy{
		Name:   "search",
		Limits: []weir.Limit{weir.PerMinute(5).Named("minute").Apart(time.Hour)},
	})
	fmt.Println(err)

	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(5, "ip")}}))
	_, err = limiter.AllowN(ctx, weir.K("192.0.2.1"), -1)
	fmt.Println(errors.Is(err, &weir.InputError{Field: "units"}), err)
	_, err = limiter.Allow(ctx, weir.K("192.0.2.1", "mobile"))
	fmt.Println(errors.Is(err, &weir.InputError{Field: "key"}), err)
	// Output:
	// weir: policy "search", limit "minute": MinInterval: 1h0m0s is longer than the window of 1m0s
	// true weir: bad number of units: -1; use 0 to 2251799813685247
	// true weir: bad key: policy "search" counts by ["ip"], and this key has 2 values; pass weir.K(ip)
}

// R14: no. Keys are tuples of opaque bytes, not joined strings.
func Example_canTwoKeysCollide() {
	limiter := must(weir.New(weir.Policy{Name: "search", Dimensions: []string{"tenant", "user"}, Limits: []weir.Limit{weir.PerMinute(1, "tenant", "user")}}))
	for _, key := range []weir.Key{weir.K("a:b", "c"), weir.K("a", "b:c"), weir.K(" ", "a:b:c"), weir.K("a:b", "c")} {
		fmt.Println(must(limiter.At(nine).Allow(ctx, key)).Allowed)
	}
	// Output:
	// true
	// true
	// true
	// false
}

// R14: values by name cannot be mixed up. The error names the dimension.
func ExampleLimiter_Key() {
	limiter := must(weir.New(weir.Policy{Name: "search", Dimensions: []string{"tenant", "user"}, Limits: []weir.Limit{weir.PerMinute(5, "tenant", "user")}}))
	key := must(limiter.Key(map[string]string{"user": "ann", "tenant": "acme"}))
	fmt.Println(must(limiter.At(nine).Allow(ctx, key)))
	_, err := limiter.Key(map[string]string{"user": "ann"})
	fmt.Println(err)
	// Output:
	// allowed: 4 left
	// weir: bad key: policy "search" needs a value for "tenant"; it counts by ["tenant" "user"]
}

// unreachable is an engine with an unreachable store.
type unreachable struct{}

var errStore = errors.New("store: connection refused")

func (unreachable) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Fail(errStore)
	}
}

// R15: no. A denial is a decision; an error means that there is none. Code that reads only
// Allowed denies then.
func Example_isADenialAnError() {
	policy := weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(0)}}

	d, err := must(weir.New(policy)).Allow(ctx, weir.K())
	fmt.Println("a limit of 0:", d.Allowed, err)

	d, err = must(weir.New(policy, weir.WithEngine(unreachable{}))).Allow(ctx, weir.K())
	fmt.Println("a store that is down:", d.Allowed, err)
	// Output:
	// a limit of 0: false <nil>
	// a store that is down: false store: connection refused
}
