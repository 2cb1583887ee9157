package policytest

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/weirlimit/weir/policy"
)

// source is a policy file whose tests pass.
//
//go:embed testdata/weir.yaml
var source string

func TestPasses(t *testing.T) {
	f, err := policy.Parse("weir.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range f.Tests {
		if failed, err := Run(test); err != nil || failed != nil {
			t.Errorf("%s: %+v, %v", test.Name, failed, err)
		}
	}
	if len(f.Tests) != 8 {
		t.Errorf("%d tests ran, want 8", len(f.Tests))
	}
}

func TestFails(t *testing.T) {
	policies, _, _ := strings.Cut(source, "tests:\n")
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
		text := policies + "tests:\n  it:\n" + c.test + "    steps:\n      - " + c.step + " # here\n"
		f, err := policy.Parse("weir.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		failed, err := Run(f.Tests[0])
		if err != nil {
			t.Fatal(err)
		}
		if failed == nil || !strings.Contains(failed.Problem, c.want) {
			t.Errorf("%s: %+v, want it to hold %q", c.step, failed, c.want)
		} else if lines := strings.Split(text, "\n"); !strings.Contains(lines[failed.Line-1], "# here") {
			t.Errorf("%s: line %d, want the one with # here", c.step, failed.Line)
		}
	}
}
