package weir_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R5: keep the grants of a limit Apart. A grant at exactly that distance passes.
func Example_howDoIKeepGrantsApart() {
	limiter := must(weir.New(weir.Policy{
		Name:   "push",
		Limits: []weir.Limit{weir.PerMinute(10, "teacher").Apart(3 * time.Second)},
	}))
	for _, after := range []time.Duration{0, 3*time.Second - time.Microsecond, 3 * time.Second} {
		d := must(limiter.At(nine.Add(after)).Allow(ctx, weir.K("42")))
		fmt.Println(after, d.Allowed, "next after", d.RetryAfter)
	}
	// Output:
	// 0s true next after 3s
	// 2.999999s false next after 1µs
	// 3s true next after 3s
}

// R7: give the limit of calls a Cost. An attempt of n tokens is one call.
func Example_howDoICountCallsAndTokens() {
	calls, tokens := weir.PerMinute(3, "user").Named("calls"), weir.PerMinute(1000, "user").Named("tokens")
	calls.Cost = 1
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{calls, tokens}}))
	for i, tokens := range []int64{700, 400, 200, 1, 1} {
		d := must(limiter.At(nine.Add(time.Duration(i)*time.Second)).AllowN(ctx, weir.K("ann"), tokens))
		fmt.Println(tokens, d.Allowed, d.Limit, d.RetryAfter)
	}
	// Output:
	// 700 true  1m0s
	// 400 false tokens 59s
	// 200 true  58s
	// 1 true  57s
	// 1 false calls 56s
}

// R7: no. An attempt that one limit denies is not charged to the other. The decision names
// the limit that denied.
func Example_canADenialChargeTheOtherLimit() {
	limiter := must(weir.New(weir.Policy{Name: "slack-alerts", Limits: []weir.Limit{
		weir.Per(3, 30*time.Minute).Named("channel"),
		weir.Per(2, 30*time.Minute, "category").Named("category"),
	}}))
	for i, category := range []string{"disk", "disk", "disk", "login", "login"} {
		at := nine.Add(time.Duration(i) * time.Minute)
		d := must(limiter.At(at).Allow(ctx, weir.K(category)))
		if d.Allowed {
			fmt.Println(category, "sent")
		} else {
			fmt.Println(category, "held back by", d.Limit)
		}
	}
	// Output:
	// disk sent
	// disk sent
	// disk held back by category
	// login sent
	// login held back by channel
}

// R12: the history stays, and the new numbers apply from the next decision on. A raised
// limit never denies an attempt that the old one would have granted. A lowered one grants
// nothing until enough units have left.
func Example_whatHappensWhenALimitChanges() {
	engine := weir.NewMemory()
	withMax := func(most int64) *weir.Limiter {
		return must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(most)}}, weir.WithEngine(engine)))
	}
	must(withMax(5).At(nine).AllowN(ctx, weir.K(), 5))

	at := nine.Add(10 * time.Second)
	for _, most := range []int64{5, 6, 2} {
		d := must(withMax(most).At(at).Peek(ctx, weir.K(), 1))
		fmt.Println("max", most, d.Allowed, "remaining", d.Remaining, "retry after", d.RetryAfter)
	}
	// Output:
	// max 5 false remaining 0 retry after 50s
	// max 6 true remaining 1 retry after 0s
	// max 2 false remaining -3 retry after 50s
}

// How do I limit all callers together? Name no dimensions: they share one history.
func ExamplePerSecond() {
	limiter := must(weir.New(weir.Policy{Name: "mail-server", Limits: []weir.Limit{weir.PerSecond(2)}}))
	for _, after := range []time.Duration{0, 900 * time.Millisecond, 999 * time.Millisecond, time.Second} {
		fmt.Println(after, must(limiter.At(nine.Add(after)).Allow(ctx, weir.K())).Allowed)
	}
	// Output:
	// 0s true
	// 900ms true
	// 999ms false
	// 1s true
}

// How do I limit each user? Name the dimension that counts. The key then has its value.
func ExamplePerMinute() {
	limiter := must(weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(1, "user")}}))
	for _, user := range []string{"ann", "bob", "ann"} {
		fmt.Println(user, must(limiter.At(nine).Allow(ctx, weir.K(user))))
	}
	// Output:
	// ann allowed: 0 left
	// bob allowed: 0 left
	// ann denied by limit "limit": 1 of 1 used in the last minute; room again in 1m0s
}

// How do I combine limits? List them. An attempt must fit all of them. One without a name is
// called by its window and its dimensions.
func ExamplePerHour() {
	limiter := must(weir.New(weir.Policy{
		Name:   "reports",
		Limits: []weir.Limit{weir.PerHour(2, "user"), weir.PerHour(3)},
	}))
	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		fmt.Println(user, must(limiter.At(nine).Allow(ctx, weir.K(user))))
	}
	// Output:
	// ann allowed: 1 left
	// ann allowed: 0 left
	// ann denied by limit "hour-user": room again in 1h0m0s
	// bob allowed: 0 left
	// bob denied by limit "hour": room again in 1h0m0s
}

// Does midnight begin a new day? No: a unit comes back 24 hours after its grant. Calendar has
// the days of a time zone.
func ExamplePerDay() {
	day := weir.PerDay(1)
	date := weir.Calendar(1, weir.Day, "Europe/Berlin")
	evening := nine.Add(14 * time.Hour) // 23:00 UTC, midnight in Berlin
	for _, limit := range []weir.Limit{day, date} {
		limiter := must(weir.New(weir.Policy{Name: "login", Limits: []weir.Limit{limit}}))
		must(limiter.At(evening.Add(-time.Minute)).Allow(ctx, weir.K()))
		fmt.Println(must(limiter.At(evening).Allow(ctx, weir.K())))
	}
	// Output:
	// denied by limit "limit": 1 of 1 used in the last 24 hours; room again in 23h59m0s
	// allowed: 0 left
}

// R16: a Bucket lets its burst pass at the same instant, and then its rate: here three, and then
// ten per second.
func Example_howDoIAllowABurst() {
	limiter := must(weir.New(weir.Policy{
		Name:   "api",
		Limits: []weir.Limit{weir.Bucket(10, time.Second, 3, "ip")},
	}))
	ip := weir.K("192.0.2.7")
	for _, after := range []time.Duration{0, 0, 0, 0, 99 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		d := must(limiter.At(nine.Add(after)).Allow(ctx, ip))
		fmt.Println(after, d.Allowed, "left", d.Remaining, "next after", d.RetryAfter)
	}
	// Output:
	// 0s true left 2 next after 0s
	// 0s true left 1 next after 0s
	// 0s true left 0 next after 100ms
	// 0s false left 0 next after 100ms
	// 99ms false left 0 next after 1ms
	// 100ms true left 0 next after 100ms
	// 1s true left 2 next after 0s
}

// R17: a limit AtOnce counts units while they are in use. Done ends a hold and leaves the other
// limits as they are.
func Example_howDoILimitConcurrency() {
	limiter := must(weir.New(weir.Policy{Name: "render", Limits: []weir.Limit{
		weir.AtOnce(2, 30*time.Second, "user").Named("running"),
		weir.PerDay(1000, "user").Named("day"),
	}}))
	user := weir.K("ann")

	call, d, err := limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("first:", d.Allowed, err)
	_, d, err = limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("second:", d.Allowed, err)
	_, d, err = limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("third:", d.Allowed, d.Limit, err)

	fmt.Println("extended:", call.Extend(ctx))
	fmt.Println("done:", call.Done(ctx), "again:", call.Done(ctx))
	fmt.Println("settled with another number:", errors.Is(call.Cancel(ctx), weir.ErrSettled))
	_, d, err = limiter.Reserve(ctx, user, weir.Request{N: 1})
	fmt.Println("third:", d.Allowed, err)
	used := must(limiter.Count(ctx, user, "day", time.Hour))
	fmt.Println("charged to the day:", used)
	// Output:
	// first: true <nil>
	// second: true <nil>
	// third: false running <nil>
	// extended: <nil>
	// done: <nil> again: <nil>
	// settled with another number: true
	// third: true <nil>
	// charged to the day: 3
}

// Five: rolling windows, buckets, windows of the calendar, windows from the first unit, and units
// that are held. Each has a constructor, and all of them can stand in one policy.
func Example_whichKindsOfLimitsAreThere() {
	first := weir.Per(500, 7*24*time.Hour, "user")
	first.Kind = weir.KindFixedFromFirst
	limiter := must(weir.New(weir.Policy{
		Name:       "reports",
		Dimensions: []string{"tenant", "user"}, // the order of the values in K
		Limits: []weir.Limit{
			weir.PerSecond(50), // in any second, all callers together
			weir.PerMinute(10, "user").Apart(time.Second), // and a second between two of a user
			weir.PerHour(200, "tenant", "user"),           // of each user of each tenant
			weir.PerDay(5000, "tenant"),                   // in any 24 hours
			weir.Per(100, 30*time.Minute, "tenant"),       // in any window of another length
			weir.Bucket(5, time.Second, 20, "tenant"),     // 20 at the same instant, then 5 per second
			weir.Calendar(100_000, weir.Month, "Europe/Berlin", "tenant"),
			first,                                  // the window begins with the first unit
			weir.AtOnce(3, 30*time.Second, "user"), // that run now, each for at most 30 seconds
		},
	}))
	fmt.Println(limiter.Allow(ctx, weir.K("acme", "ann")))
	for _, limit := range limiter.Compiled().Limits {
		fmt.Println(limit.Kind, limit.Name)
	}
	// Output:
	// allowed: 2 left <nil>
	// Rolling second
	// Rolling minute-user
	// Rolling hour-tenant-user
	// Rolling day-tenant
	// Rolling 30m-tenant
	// Bucket second-tenant
	// Fixed month-tenant
	// FixedFromFirst 7d-user
	// Concurrency at-once-user
}

// Policy.Dimensions declares it. The order of the limits changes no key, so a limit may be added
// anywhere. A policy with at most one dimension needs none.
func Example_whichValueOfAKeyIsWhich() {
	push := weir.Policy{
		Name:       "push",
		Dimensions: []string{"tenant", "teacher"},
		Limits:     []weir.Limit{weir.PerMinute(10, "teacher"), weir.PerHour(500, "tenant")},
	}
	limiter := must(weir.New(push))
	fmt.Println(limiter.Allow(ctx, weir.K("acme", "ann")))

	_, err := limiter.Allow(ctx, weir.K("ann"))
	fmt.Println(err)

	push.Dimensions = nil
	_, err = weir.New(push)
	fmt.Println(err)
	// Output:
	// allowed: 9 left <nil>
	// weir: bad key: policy "push" counts by ["tenant" "teacher"], and this key has 1 value; pass weir.K(tenant, teacher), in this order
	// weir: policy "push": Dimensions: missing; the limits count by 2 dimensions, so declare the order of the values in K, such as Dimensions: []string{"teacher", "tenant"}
}

// R12: its name renames it. The only limit of a policy is called "limit"; one of several without
// a name by its window and its dimensions. So a second limit, another window or another dimension
// begins an empty history. Name a limit that may change.
func Example_whatRenamesALimit() {
	engine := weir.NewMemory()
	allow := func(limits ...weir.Limit) {
		limiter, err := weir.New(weir.Policy{Name: "search", Limits: limits}, weir.WithEngine(engine))
		if err != nil {
			fmt.Println(err)
			return
		}
		d := must(limiter.At(nine).Allow(ctx, weir.K("ann")))
		fmt.Println(limiter.Compiled().LimitNames(), d)
	}
	perUser, perDay := weir.PerMinute(5, "user"), weir.PerDay(500, "user")
	allow(perUser)
	allow(perUser, perDay)                            // both are new names
	allow(weir.PerMinute(9, "user"), perDay)          // another number renames nothing
	allow(weir.Per(5, 2*time.Minute, "user"), perDay) // another window does

	allow(perUser.Named("user"))
	allow(weir.Per(5, 2*time.Minute, "user").Named("user"), perDay) // unless the limit is Named

	allow(perUser, weir.PerMinute(3, "user"))
	// Output:
	// [limit] allowed: 4 left
	// [minute-user day-user] allowed: 4 left
	// [minute-user day-user] allowed: 7 left
	// [2m-user day-user] allowed: 4 left
	// [user] allowed: 4 left
	// [user day-user] allowed: 3 left
	// weir: policy "search", limit "#2": Name: "minute-user" is used twice, and histories belong to the name; give each limit one with Named
}
