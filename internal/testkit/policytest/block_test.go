package policytest

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/policy"
)

const blocked = `version: 1
policies:
  guard: {limit: "2 failures per 15m per user, then block 1h", count: reported}
tests:
  it:
    policy: guard
    key: {user: ann}
    steps:
      - {do: record, times: 2}
      - {at: 1m, do: peek, expect: denied, retry: 14m}
      - {at: 1m, expect: denied, retry: 1h, limit: limit}
      - {at: 20m, expect: denied, retry: 41m, remaining: 0}
      - {at: 20m, key: {user: ben}, expect: allowed}
      - {at: 61m, expect: allowed}
      - {at: 61m, do: record, n: 3}
      - {at: 61m, expect: denied}
      - {at: 62m, do: reset}
      - {at: 62m, expect: allowed}
`

// TestBlocksApplyInVirtualTime: a policy test sees blocks begin, last and end.
func TestBlocksApplyInVirtualTime(t *testing.T) {
	f, err := policy.Parse("weir.yaml", []byte(blocked))
	if err != nil {
		t.Fatal(err)
	}
	if failed, err := Run(f.Tests[0]); failed != nil || err != nil {
		t.Errorf("%+v, %v", failed, err)
	}
	f, err = policy.Parse("weir.yaml", []byte(strings.Replace(blocked, "retry: 41m", "retry: 40m", 1)))
	if err != nil {
		t.Fatal(err)
	}
	const want = `at 20m: retry 41m, want 40m (blocked for user=ann by limit "limit" until 2000-01-01T01:01:00.000000Z; the same fits in 41m)`
	if failed, err := Run(f.Tests[0]); err != nil || failed == nil || failed.Problem != want {
		t.Errorf("%+v, %v\nwant %s", failed, err, want)
	}
}
