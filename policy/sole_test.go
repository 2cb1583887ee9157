package policy_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy"
)

// TestSoleLimitIsNamedAlike: a limit without a name in Go has the history of limit: in a
// policy file.
func TestSoleLimitIsNamedAlike(t *testing.T) {
	file, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  sms:\n    limit: 3 per minute per phone\n"))
	if err != nil {
		t.Fatal(err)
	}
	written := weir.Policy{Name: "sms", Limits: []weir.Limit{weir.PerMinute(3, "phone")}}
	plan, err := written.Compile()
	inFile, errInFile := file.Policies[0].Compile()
	if err != nil || errInFile != nil || !reflect.DeepEqual(plan.Limits, inFile.Limits) {
		t.Errorf("got %+v, %v; want %+v as in the file, %v", plan.Limits, err, inFile.Limits, errInFile)
	}
	read, err := file.Policies[0].Policy()
	if err != nil {
		t.Fatal(err)
	}
	engine := weir.NewMemory()
	for i, p := range []weir.Policy{written, read, written} {
		limiter, err := weir.New(p, weir.WithEngine(engine))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := limiter.Allow(context.Background(), weir.K("555-0100")); d.Remaining != int64(2-i) || err != nil {
			t.Errorf("attempt %d: got %v, %v; want %d left in one history", i+1, d, err, 2-i)
		}
	}
}
