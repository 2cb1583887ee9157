package weir_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

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
