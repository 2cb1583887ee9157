package weir_test

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
)

// Many requests are decided in one call. Each has its own decision, in their order.
func ExampleLimiter_DecideAll() {
	limiter, err := weir.New(weir.Policy{Name: "push", Limits: []weir.Limit{weir.PerMinute(2, "user")}})
	if err != nil {
		panic(err)
	}
	var calls []weir.Call
	for _, user := range []string{"ann", "bob", "ann", "ann"} {
		calls = append(calls, weir.Call{Key: weir.K(user), Request: weir.Request{N: 1}})
	}
	limiter.DecideAll(context.Background(), calls)
	for _, c := range calls {
		fmt.Println(c.Key.Value(0), c.Decision.Allowed, c.Err)
	}
	// Output:
	// ann true <nil>
	// bob true <nil>
	// ann true <nil>
	// ann false <nil>
}

// A transfer counts against the daily cap of the sender and that of the receiver, or against
// neither.
func ExampleDecideTogether() {
	engine := weir.NewMemory()
	daily := func(name string, max int64) *weir.Limiter {
		limiter, err := weir.New(weir.Policy{Name: name, Limits: []weir.Limit{weir.PerDay(max, "account")}}, weir.WithEngine(engine))
		if err != nil {
			panic(err)
		}
		return limiter
	}
	sent, received := daily("sent", 1000), daily("received", 1500)
	for _, t := range []struct {
		from, to string
		cents    int64
	}{{"ann", "bob", 900}, {"cid", "bob", 900}, {"cid", "dan", 900}} {
		r := weir.Request{N: t.cents}
		calls := []weir.Call{sent.Call(weir.K(t.from), r), received.Call(weir.K(t.to), r)}
		if err := weir.DecideTogether(context.Background(), engine, calls); err != nil {
			panic(err)
		}
		out, in := calls[0].Decision, calls[1].Decision
		fmt.Printf("%s to %s: %v, the limits %q and %q denied; %d and %d left\n",
			t.from, t.to, out.Allowed, out.Limit, in.Limit, out.Remaining, in.Remaining)
	}
	// Output:
	// ann to bob: true, the limits "" and "" denied; 100 and 600 left
	// cid to bob: false, the limits "" and "limit" denied; 1000 and 600 left
	// cid to dan: true, the limits "" and "" denied; 100 and 600 left
}
