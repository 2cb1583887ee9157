package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
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

// R13: cap the engine. At the cap new keys get an error, and known keys continue. No
// history is forgotten while it counts.
func Example_whatIfSomebodyInventsKeys() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(5, "ip")}}, weir.WithEngine(weir.NewMemory(weir.MaxKeys(2)))))

	for i, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.1"} {
		d, err := limiter.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K(ip))
		fmt.Println(ip, d.Allowed, "full:", errors.Is(err, weir.ErrFull))
	}

	d := must(limiter.At(nine.Add(2*time.Hour)).Allow(ctx, weir.K("192.0.2.3")))
	fmt.Println("later, 192.0.2.3", d.Allowed)
	// Output:
	// 192.0.2.1 true full: false
	// 192.0.2.2 true full: false
	// 192.0.2.3 false full: true
	// 192.0.2.1 true full: false
	// later, 192.0.2.3 true
}

// R4: nothing. A caller that retries all the time is admitted at the same instant as one
// that waits. A peek costs nothing either.
func Example_doesADenialCostAnything() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(1)}}))
	must(limiter.At(nine).Allow(ctx, weir.K()))
	for s := range 59 {
		must(limiter.At(nine.Add(time.Duration(1+s)*time.Second)).Allow(ctx, weir.K()))
	}

	after := limiter.At(nine.Add(time.Minute))
	fmt.Println("peek:", must(after.Peek(ctx, weir.K(), 1)).Allowed)
	fmt.Println("attempt:", must(after.AllowN(ctx, weir.K(), 1)).Allowed)
	// Output:
	// peek: true
	// attempt: true
}

// R6: it depends on the mode. AllOrNothing grants nothing, Partial as many units as fit.
// CountDenied grants nothing and records the attempt.
func Example_whatHappensToABatchThatDoesNotFit() {
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial, weir.CountDenied} {
		limiter := must(weir.New(weir.Policy{Name: "import", Mode: mode, Limits: []weir.Limit{weir.PerMinute(5)}}))
		must(limiter.At(nine).AllowN(ctx, weir.K(), 3))
		d := must(limiter.At(nine.Add(time.Second)).AllowN(ctx, weir.K(), 3))
		fmt.Println(mode, "granted", d.Granted, "of 3, remaining", d.Remaining, "retry after", d.RetryAfter)
	}
	// Output:
	// AllOrNothing granted 0 of 3, remaining 2 retry after 59s
	// Partial granted 2 of 3, remaining 0 retry after 59s
	// CountDenied granted 0 of 3, remaining -1 retry after 1m0s
}

// R10: Record adds units without a decision. Room may go below zero; attempts are then
// denied until it is back.
func Example_whatIfTheCostIsKnownOnlyAfterwards() {
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerMinute(1000, "tenant")}}))
	tenant := weir.K("acme")

	d := must(limiter.At(nine).AllowN(ctx, tenant, 600)) // the estimate
	fmt.Println("estimate granted:", d.Granted, "remaining", d.Remaining)

	d = must(limiter.At(nine.Add(2*time.Second)).Record(ctx, tenant, 700)) // the cost beyond the estimate
	fmt.Println("recorded:", d.Granted, "remaining", d.Remaining)

	d = must(limiter.At(nine.Add(3*time.Second)).Peek(ctx, tenant, 600))
	fmt.Println("the next 600:", d.Allowed, "retry after", d.RetryAfter)
	// Output:
	// estimate granted: 600 remaining 400
	// recorded: 700 remaining -300
	// the next 600: false retry after 59s
}

// R10: Refund takes units back from the entry granted at the decision's instant, never
// more than the entry has, and none after its window.
func Example_howDoIGiveUnitsBack() {
	limiter := must(weir.New(weir.Policy{Name: "sms", Limits: []weir.Limit{weir.PerDay(10, "phone")}}))
	phone := weir.K("+1 555 0100")
	granted := must(limiter.At(nine).AllowN(ctx, phone, 4))

	later := limiter.At(nine.Add(time.Minute))
	fmt.Println("took back", must(later.Refund(ctx, phone, granted.At, 3)))
	fmt.Println("took back", must(later.Refund(ctx, phone, granted.At, 3)))
	fmt.Println("remaining", must(later.Peek(ctx, phone, 1)).Remaining)
	// Output:
	// took back 3
	// took back 1
	// remaining 10
}

// R10: a reset forgets the limits that count by every dimension. Those that the key shares with
// further keys must be named, and need only the values of their dimensions.
func Example_whatDoesAResetForget() {
	limiter := must(weir.New(weir.Policy{Name: "api", Dimensions: []string{"tenant", "user"}, Limits: []weir.Limit{
		weir.PerHour(1000, "tenant").Named("tenant"),
		weir.PerMinute(10, "tenant", "user").Named("user"),
	}}))
	fmt.Println(must(limiter.Reset(ctx, weir.K("acme", "ann"))))
	fmt.Println(must(limiter.Reset(ctx, weir.K("acme"), "tenant")))
	// Output:
	// [user]
	// [tenant]
}

// R15: an operation with an idempotency key can be repeated until it is answered, and is
// charged once.
func ExampleLimiter_AllowOnce() {
	store := weirtest.NewFaulty(weir.NewMemory()) // in a program: weirredis.New(conn)
	limiter := must(weir.New(weir.Policy{Name: "transfers", Limits: []weir.Limit{weir.PerDay(200_000, "account")}}, weir.WithEngine(fallback.New(store, fallback.Deny))))

	store.Break(weirtest.Lost()) // the store records, and its answer is lost
	id := "transfer-4711"        // chosen once, before the first call
	d, err := limiter.AllowOnce(ctx, weir.K("7"), 50_000, id)
	for range 5 {
		if !errors.Is(err, weir.ErrOutcomeUnknown) && !errors.Is(err, weir.ErrUnavailable) {
			break
		}
		fmt.Println("no answer; retry")
		store.Restore() // in a program: wait a little
		d, err = limiter.AllowOnce(ctx, weir.K("7"), 50_000, id)
	}
	fmt.Println("allowed:", d.Allowed, "replayed:", d.Replayed, "left of 200000:", d.Remaining, "error:", err)
	// Output:
	// no answer; retry
	// allowed: true replayed: true left of 200000: 150000 error: <nil>
}

// R15: a Call gives a record or a refund the options of an attempt. With an idempotency key it may
// be made again, and is charged or refunded once.
func Example_howDoIRecordACostOnce() {
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerHour(1000, "tenant")}}))
	record := weir.Call{
		Limiter: limiter.At(nine),
		Key:     weir.K("acme"),
		Op:      engine.Record,
		Request: weir.Request{N: 700, ID: "answer-4711"},
	}
	for range 2 { // such as after weir.ErrOutcomeUnknown
		d, err := record.Do(ctx)
		fmt.Println(d.Granted, "left", d.Remaining, "replayed:", d.Replayed, err)
	}

	refund := record
	refund.Op, refund.From = engine.Refund, record.Decision.At // of the recorded entry
	refund.Request = weir.Request{N: 200, ID: "answer-4711-refund"}
	for range 2 {
		d, err := refund.Do(ctx)
		fmt.Println(d.Granted, "taken back, replayed:", d.Replayed, err)
	}
	fmt.Println("left", must(limiter.At(nine).Peek(ctx, weir.K("acme"), 0)).Remaining)
	// Output:
	// 700 left 300 replayed: false <nil>
	// 700 left 300 replayed: true <nil>
	// 200 taken back, replayed: false <nil>
	// 200 taken back, replayed: true <nil>
	// left 500
}

// R10: a reservation is granted before the use and settled once after it, with the units
// really used. Units beyond the reservation are recorded, and room may go below zero.
func Example_howDoIReserveAndSettle() {
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerHour(1000, "tenant")}}))
	tenant := weir.K("acme")

	answer, d, err := limiter.Reserve(ctx, tenant, weir.Request{N: 600, TTL: 5 * time.Minute}) // an estimate
	fmt.Println("reserved:", d.Granted, "remaining", d.Remaining, err)

	_, d, err = limiter.Reserve(ctx, tenant, weir.Request{N: 600})
	fmt.Println("another 600:", d.Allowed, err)

	err = answer.Commit(ctx, 250) // units really used
	fmt.Println("used 250:", err, "remaining", must(limiter.Peek(ctx, tenant, 1)).Remaining)

	err = answer.Cancel(ctx)
	fmt.Println("settled twice:", errors.Is(err, weir.ErrSettled), "remaining", must(limiter.Peek(ctx, tenant, 1)).Remaining)
	// Output:
	// reserved: 600 remaining 400 <nil>
	// another 600: false <nil>
	// used 250: <nil> remaining 750
	// settled twice: true remaining 750
}

// R1: the engine's own clock, read once per decision, or the instant that the caller
// passes. A Request without an instant is decided now. Decision.At is the instant of the decision.
func Example_whichClockDecides() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(1)}}))

	now := must(limiter.Allow(ctx, weir.K()))
	fmt.Println("engine's clock, read once:", time.Since(now.At) < time.Hour)

	again := must(limiter.Decide(ctx, weir.K(), weir.Request{N: 1})) // no instant: now
	fmt.Println("the same clock:", !again.At.Before(now.At), again.At.Sub(now.At) < time.Hour)

	passed := must(limiter.At(nine.AddDate(1, 0, 0)).Allow(ctx, weir.K()))
	fmt.Println("caller's instant:", passed.At.UTC().Format(time.DateTime))
	// Output:
	// engine's clock, read once: true
	// the same clock: true true
	// caller's instant: 2027-01-05 09:00:00
}

// R2: if the clock is behind by less than a second, the decision uses the instant of the
// newest entry. If it is further behind, it was corrected, and entries of the future count
// from now on.
func Example_whatIfTheClockStepsBack() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(2)}}))
	try := func(after time.Duration) {
		d := must(limiter.At(nine.Add(after)).Allow(ctx, weir.K()))
		fmt.Println("clock at", nine.Add(after).Format("04:05.0"), "decided at", d.At.UTC().Format("04:05.0"),
			d.Allowed, "wait", d.RetryAfter)
	}

	try(10 * time.Second)
	try(9600 * time.Millisecond) // 0.4 s behind: decided at the newest entry's instant
	try(5 * time.Second)         // 5 s behind: corrected, both entries count from here
	try(65 * time.Second)        // a correction denies wrongly for at most one window
	// Output:
	// clock at 00:10.0 decided at 00:10.0 true wait 0s
	// clock at 00:09.6 decided at 00:10.0 true wait 1m0s
	// clock at 00:05.0 decided at 00:05.0 false wait 1m0s
	// clock at 01:05.0 decided at 01:05.0 true wait 0s
}

// Many requests are decided in one call. Each has its own decision, in their order.
func ExampleDecideAll() {
	limiter, err := weir.New(weir.Policy{Name: "push", Limits: []weir.Limit{weir.PerMinute(2, "user")}})
	if err != nil {
		panic(err)
	}
	var calls []weir.Call
	for _, user := range []string{"ann", "bob", "ann", "ann"} {
		calls = append(calls, weir.Call{Limiter: limiter, Key: weir.K(user), Request: weir.Request{N: 1}})
	}
	weir.DecideAll(context.Background(), calls)
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
		calls := []weir.Call{{Limiter: sent, Key: weir.K(t.from), Request: r}, {Limiter: received, Key: weir.K(t.to), Request: r}}
		if err := weir.DecideTogether(context.Background(), calls); err != nil {
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
