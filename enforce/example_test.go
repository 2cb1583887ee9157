package enforce_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/policy"
)

// How do I use a policy file in a Go program?
func Example() {
	file, err := policy.Parse("weir.yaml", []byte(`
version: 1
policies:
  api:
    limit: 1 per minute per tenant
    plan-by: plan
    plans: {pro: 100 per minute}
`))
	if err != nil {
		log.Fatal(err)
	}
	set, err := enforce.New(file, weir.NewMemory()) // or enforce.Open("weir.yaml", engine)
	if err != nil {
		log.Fatal(err)
	}
	for _, values := range []map[string]string{{"tenant": "acme"}, {"tenant": "acme"}, {"tenant": "acme", "plan": "pro"}} {
		out, err := set.Check(context.Background(), "api", values, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Allowed, out.Remaining)
	}
	// Output:
	// true 0
	// false 0
	// true 98
}

// How does a shadow report the decision that it does not enforce?
func ExampleSet_Check_shadow() {
	file, err := policy.Parse("weir.yaml", []byte(`
version: 1
policies:
  search: {limit: 1 per minute per user, shadow: true}
`))
	if err != nil {
		log.Fatal(err)
	}
	set, err := enforce.New(file, weir.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		out, err := set.Check(context.Background(), "search", map[string]string{"user": "ann"}, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Allowed, out.Would.Allowed)
	}
	// Output:
	// true true
	// true false
}

// How do I count addresses?
func ExampleSet_Check_addresses() {
	file, err := policy.Parse("weir.yaml", []byte(`
version: 1
policies:
  search:
    limit: 2 per minute per ip
    keys: {ip: address}
    overrides:
      - {for: {ip: 10.0.0.0/8}, limit: 100 per minute, until: forever, why: our own network}
`))
	if err != nil {
		log.Fatal(err)
	}
	set, err := enforce.New(file, weir.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	for _, ip := range []string{"2001:db8::1", "[2001:DB8::FFFF]:443", "2001:db8:0:1::1", "::ffff:10.0.0.5"} {
		out, err := set.Check(context.Background(), "search", map[string]string{"ip": ip}, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ip, out.Remaining)
	}
	_, err = set.Check(context.Background(), "search", map[string]string{"ip": "office"}, 1)
	fmt.Println(err)
	// Output:
	// 2001:db8::1 1
	// [2001:DB8::FFFF]:443 0
	// 2001:db8:0:1::1 1
	// ::ffff:10.0.0.5 99
	// weir: bad key: the value of "ip" is not an address, and policy "search" counts by addresses; send one such as 192.0.2.7 or 2001:db8::1
}

// How do failed logins block an account?
func ExampleSet_Record() {
	file, err := policy.Parse("weir.yaml", []byte(`
version: 1
policies:
  login:
    limit: 2 failures per 15m per user, then block 1h
    count: reported
`))
	if err != nil {
		log.Fatal(err)
	}
	set, err := enforce.New(file, weir.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	ctx, ann := context.Background(), map[string]string{"user": "ann"}
	for range 3 {
		out, err := set.Check(ctx, "login", ann, 1) // before the password is checked
		if err != nil {
			log.Fatal(err)
		}
		if !out.Allowed {
			fmt.Println("blocked for", out.RetryAfter.Round(time.Minute))
			continue
		}
		fmt.Println("wrong password")
		if _, err := set.Record(ctx, "login", ann, 1); err != nil { // after a failure
			log.Fatal(err)
		}
	}
	// Output:
	// wrong password
	// wrong password
	// blocked for 1h0m0s
}

// How do I reload a policy file while the program runs?
func ExampleSet_Watch() {
	set, err := enforce.Open("weir.yaml", weir.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go set.Watch(ctx, func(err error) {
		if err != nil {
			log.Print("the previous policies stay in force: ", err)
		}
	})
}
