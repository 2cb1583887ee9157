package replay_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/policy"
)

// What would two a minute have meant for yesterday's traffic?
func ExampleRunner_Run() {
	policies, err := policy.Parse("weir.yaml", []byte(`{version: 1, policies: {search: {limits: {ip: 2 per minute per ip}}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	runner, err := replay.New(policies, weir.NewMemory())
	if err != nil {
		fmt.Println(err)
		return
	}
	trace := strings.NewReader(`
{"at_us":1000000,"policy":"search","key":{"ip":"192.0.2.7"}}
{"at_us":2000000,"policy":"search","key":{"ip":"192.0.2.7"}}
{"at_us":3000000,"policy":"search","key":{"ip":"192.0.2.7"}}
`)
	summary, err := runner.Run(trace, os.Stdout)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(summary.Denied, "of", summary.Lines, "denied")
	// Output:
	// {"at_us":1000000,"allowed":true,"granted":1,"remaining":1,"retry_after_us":0,"reset_after_us":60000000,"limit":""}
	// {"at_us":2000000,"allowed":true,"granted":1,"remaining":0,"retry_after_us":59000000,"reset_after_us":60000000,"limit":""}
	// {"at_us":3000000,"allowed":false,"granted":0,"remaining":0,"retry_after_us":58000000,"reset_after_us":59000000,"limit":"ip"}
	// 1 of 3 denied
}
