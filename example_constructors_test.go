package weir_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

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

// How do I combine limits? Give each a name. An attempt must fit all of them.
func ExamplePerHour() {
	user, all := weir.PerHour(2, "user"), weir.PerHour(3)
	user.Name, all.Name = "user", "all"
	limiter := must(weir.New(weir.Policy{Name: "reports", Limits: []weir.Limit{user, all}}))
	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		fmt.Println(user, must(limiter.At(nine).Allow(ctx, weir.K(user))))
	}
	// Output:
	// ann allowed: 1 left
	// ann allowed: 0 left
	// ann denied by limit "user": room again in 1h0m0s
	// bob allowed: 0 left
	// bob denied by limit "all": room again in 1h0m0s
}

// Does midnight begin a new day? No: a unit comes back 24 hours after its grant. A limit by
// the calendar has a Kind and a Period.
func ExamplePerDay() {
	day := weir.PerDay(1)
	date := weir.Limit{Max: 1, Kind: weir.Fixed, Period: weir.Day, Zone: "Europe/Berlin"}
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
