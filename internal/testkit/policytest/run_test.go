package policytest

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

const policies = `version: 1
policies:
  push:   {limits: {teacher: "2 per minute per teacher, 3s apart", all: 100 per minute}}
  shadow: {limit: 1 per minute per user, shadow: true}
  login:  {limit: 2 failures per 10m per user, count: reported}
  warned: {limit: 5 per minute per user, warn: 80%}
  reports: {limit: 5 per minute per user, warn: 80%, count: reported}
  guard: {limit: "2 failures per 15m per user, then block 1h", count: reported}
  api:
    limit: 1 per minute per user
    plan-by: plan
    plans: {pro: 2 per minute}
    overrides: [{for: {user: ann}, limit: 3 per minute, until: 2026-12-31, why: Her launch.}]
tests:
  it:
`

// failure returns the failure of a policy test with these steps, "" if it passes.
func failure(t *testing.T, words string) string {
	t.Helper()
	f := must.Get(policy.Parse("weir.yaml", []byte(policies+words)))(t)
	failed := must.Get(Run(f.Tests[0]))(t)
	if failed == nil {
		return ""
	}
	if lines := strings.Split(policies+words, "\n"); !strings.Contains(lines[failed.Line-1], "# here") {
		t.Errorf("line %d, want the one with # here", failed.Line)
	}
	return failed.Problem
}

func TestPasses(t *testing.T) {
	for _, words := range []string{`
    policy: push
    key: {teacher: "42"}
    steps:
      - {expect: allowed, granted: 1, remaining: 1, retry: 3s, limit: none}
      - {at: 2s, expect: denied, retry: 1s, limit: teacher}
      - {at: 3s, times: 2, do: peek, expect: allowed, remaining: 1}
      - {do: record, n: 5, remaining: -4}
      - {n: 3, retry: never, limit: teacher}
      - {do: reset}
      - {expect: allowed}
`, `
    policy: shadow
    key: {user: ann}
    steps: [{expect: allowed}, {expect: denied, granted: 0, retry: 1m}]
`, `
    policy: login
    key: {user: ann}
    steps:
      - {times: 5, expect: allowed}
      - {times: 2, do: record}
      - {at: 1m, expect: denied, retry: 9m}
`, `
    policy: api
    key: {user: ben, plan: pro}
    steps: [{times: 2, expect: allowed}, {expect: denied}]
`, `
    policy: warned
    key: {user: ann}
    steps:
      - {times: 3, warning: false}
      - {warning: true}
      - {expect: allowed, warning: false}
      - {expect: denied, warning: false}
      - {at: 2m, n: 5, warning: true}
`, `
    policy: reports
    key: {user: ann}
    steps:
      - {do: record, n: 3, warning: false}
      - {expect: allowed, warning: false}
      - {do: record, warning: true}
`, `
    policy: api
    from: 2026-12-31
    key: {user: ann}
    steps:
      - {times: 3, expect: allowed}
      - {at: 23h, times: 3, expect: allowed}
      - {at: 24h, expect: allowed}
      - {expect: denied}
`, `
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
`} {
		if problem := failure(t, words); problem != "" {
			t.Errorf("%s\nfailed: %s", words, problem)
		}
	}
}

func TestFails(t *testing.T) {
	const guard = "    policy: guard\n    key: {user: ann}\n"
	const push, warned = "    policy: push\n    key: {teacher: \"42\"}\n", "    policy: warned\n    key: {user: ann}\n"
	for _, c := range []struct{ test, step, want string }{
		{push, "{expect: denied}", `at 0s: allowed, want denied (1 of 2 used in the last minute for teacher=42, 1 left; the same again fits in 3s)`},
		{push, "{granted: 0}", "granted 1, want 0"},
		{push, "{remaining: 2}", "remaining 1, want 2"},
		{push, "{retry: 2999ms}", "retry 3s, want 2999ms"},
		{push, "{n: 3, retry: 1s}", "retry never, want 1s"},
		{push, "{retry: never, limit: all}", "retry 3s, want never, limit none, want all"},
		{push, "{times: 3, expect: allowed}", "at 0s, time 2 of 3: denied, want allowed (the last grant was"},
		{push, "{at: 1500ms, expect: denied}", "at 1500ms: allowed"},
		{guard, "{do: record, n: 2}\n      - {at: 1m}\n      - {at: 20m, retry: 40m}",
			`at 20m: retry 41m, want 40m (blocked for user=ann by limit "limit" until 2000-01-01T01:01:00.000000Z; the same fits in 41m)`},
		{warned, "{times: 5, warning: true}", "at 0s, time 1 of 5: warning false, want true"},
		{warned, "{times: 5, warning: false}", "at 0s, time 4 of 5: warning true, want false"},
	} {
		got := failure(t, c.test+"    steps:\n      - "+c.step+" # here\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want it to hold %q", c.step, got, c.want)
		}
	}
}
