package policy_test

import (
	"context"
	"fmt"
	"time"

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

// How do I write a length as the file does?
func ExampleFormatDuration() {
	fmt.Println(policy.FormatDuration(7*24*time.Hour), policy.FormatDuration(90*time.Second), policy.FormatDuration(24*time.Hour))
	// Output: 7d 90s 24h
}
