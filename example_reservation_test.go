package weir_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// R20: a limit with a block denies a guesser for longer than its window. The block begins with the
// denial and ends by itself, or with a reset.
func Example_howDoIBlockAGuesser() {
	limiter := must(weir.New(weir.Policy{Name: "login", Limits: []weir.Limit{
		weir.PerMinute(3, "user").Blocking(10 * time.Minute),
	}}))
	try := func(after time.Duration) {
		fmt.Println(must(limiter.At(nine.Add(after)).Allow(ctx, weir.K("ann"))))
	}
	for s := range 4 {
		try(time.Duration(s) * time.Second)
	}
	try(5 * time.Minute)
	try(10*time.Minute + 3*time.Second)

	// An operator, or a provider's Retry-After, blocks a key without a denial.
	until, err := limiter.At(nine.Add(11*time.Minute)).Block(ctx, weir.K("bob"), time.Hour)
	fmt.Println("bob until", until.UTC().Format(time.TimeOnly), err)
	fmt.Println(must(limiter.Reset(ctx, weir.K("bob"))))
	fmt.Println(must(limiter.At(nine.Add(12*time.Minute)).Allow(ctx, weir.K("bob"))))
	// Output:
	// allowed: 2 left
	// allowed: 1 left
	// allowed: 0 left
	// denied by limit "limit": its key is blocked for 10m0s; room again in 10m0s
	// denied by limit "limit": its key is blocked for 5m3s; room again in 5m3s
	// allowed: 2 left
	// bob until 10:11:00 <nil>
	// [limit]
	// allowed: 2 left
}

// R19: a long answer needs more than its estimate. Add takes further units, if they fit.
func ExampleReservation_Add() {
	limiter := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerHour(1000, "tenant")}}))
	tenant := weir.K("acme")

	answer, _, err := limiter.Reserve(ctx, tenant, weir.Request{N: 600})
	for range 2 { // while the answer grows
		d := must(answer.Add(ctx, 300))
		fmt.Println("300 more:", d.Allowed, "reserved:", answer.Units())
	}
	err = errors.Join(err, answer.Commit(ctx, 850))
	fmt.Println("used 850:", err, "remaining", must(limiter.Peek(ctx, tenant, 1)).Remaining)
	// Output:
	// 300 more: true reserved: 900
	// 300 more: false reserved: 900
	// used 850: <nil> remaining 150
}

// R19: a job is accepted by one process and done by another. Its reservation needs no more than the
// key and the ID, which travel with the job.
func ExampleLimiter_Reservation() {
	store := weir.NewMemory() // in a program: weirredis.New(conn)
	policy := weir.Policy{Name: "render", Limits: []weir.Limit{weir.PerDay(100, "tenant"), weir.AtOnce(2, time.Hour, "tenant")}}
	front, worker := must(weir.New(policy, weir.WithEngine(store))), must(weir.New(policy, weir.WithEngine(store)))

	accepted, d, err := front.Reserve(ctx, weir.K("acme"), weir.Request{N: 1, ID: "job-4711"})
	fmt.Println("accepted:", d.Allowed, accepted.ID(), err)

	job := must(worker.Reservation(weir.K("acme"), "job-4711"))
	fmt.Println("done:", job.Done(ctx), "again:", job.Done(ctx))
	fmt.Println("by the first one:", accepted.Done(ctx))
	fmt.Println("cancelled:", errors.Is(accepted.Cancel(ctx), weir.ErrSettled))
	// Output:
	// accepted: true job-4711 <nil>
	// done: <nil> again: <nil>
	// by the first one: <nil>
	// cancelled: true
}
