package policy_test

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy"
)

// How do I limit by a policy file?
func Example() {
	file, err := policy.Parse("weir.yaml", []byte(`
version: 1
policies:
  sms:
    about: Nobody gets more than three messages a day.
    limit: 3 messages per day per phone
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	sms := file.Definition("sms")
	p, err := sms.Policy()
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := weir.New(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sms.Sentence(0))
	fmt.Println(limiter.Compiled().Dimensions)
	// Output:
	// 3 messages per day per phone
	// [phone]
}

// How does an error look?
func ExampleError() {
	_, err := policy.Parse("limits.yaml", []byte("version: 1\npolicies:\n  search:\n    limit: 5 per minit per ip\n"))
	fmt.Println(err)
	// Output:
	// limits.yaml:4:18: "minit" is not a window; use second, minute, hour, day, week, month (with fixed), or a length such as 90s, 30m, 24h
	// > 4 |     limit: 5 per minit per ip
	//                        ^
}

// How do I take a limit from a flag or a form?
func ExampleParseLimit() {
	limit, unit, err := policy.ParseLimit("200_000 cents per day per account")
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := weir.New(weir.Policy{Name: "transfers", Limits: []weir.Limit{limit}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := limiter.AllowN(context.Background(), weir.K("ann"), 150_000)
	fmt.Println(d.Remaining, unit, err)
	// Output: 50000 cents <nil>
}

// May lines of a policy file stand in a Go program? Yes: each is a weir.Limit without a name, as
// that of weir.PerMinute. A warning or a shadow needs package enforce.
func Example_mayLinesOfAFileStandInAProgram() {
	push := weir.Policy{Name: "push", Dimensions: []string{"tenant", "teacher"}}
	for _, line := range []string{"10 per minute per teacher, 3s apart", "100 per 30m per tenant"} {
		limit, _, err := policy.ParseLimit(line)
		if err != nil {
			fmt.Println(err)
			return
		}
		push.Limits = append(push.Limits, limit)
	}
	limiter, err := weir.New(push)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(limiter.Compiled().LimitNames())
	fmt.Println(limiter.Allow(context.Background(), weir.K("acme", "ann")))

	_, _, err = policy.ParseLimit("5 per minute per user, warn 80%")
	fmt.Println(err)
	// Output:
	// [minute-teacher 30m-tenant]
	// allowed: 9 left <nil>
	// 1:24: "warn" is no part of a weir.Limit; leave it out, or put the line in a policy file and apply it with package enforce
	// > 1 | 5 per minute per user, warn 80%
	//                              ^
}
