// Package policies_test loads the policy files of this directory and runs their tests.
package policies_test

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/policytest"
	"github.com/weirlimit/weir/policy"
)

// TestPolicyFiles runs the tests in the files. For each policy the first attempt of a caller
// passes, and an attempt of more units than a limit can hold never fits.
func TestPolicyFiles(t *testing.T) {
	policies, tests := 0, 0
	paths, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range paths {
		file, err := policy.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range file.Policies {
			policies++
			t.Run(name+"/"+p.Name, func(t *testing.T) { decideOnce(t, p) })
		}
		for _, test := range file.Tests {
			tests++
			if failed, err := policytest.Run(test); err != nil || failed != nil {
				t.Errorf("%s: %s: %+v, %v", name, test.Name, failed, err)
			}
		}
	}
	if policies == 0 || tests == 0 {
		t.Errorf("the files have %d policies and %d tests", policies, tests)
	}
}

func decideOnce(t *testing.T, p *policy.Definition) {
	limiter, err := weir.New(weir.Policy{Name: p.Name, Mode: p.Mode, Limits: p.Limits, Dimensions: p.Dimensions()})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, dimension := range limiter.Compiled().Dimensions {
		values[dimension] = "some"
	}
	key, err := limiter.Compiled().Key(values)
	if err != nil {
		t.Fatal(err)
	}
	d, err := limiter.Allow(t.Context(), key)
	if err != nil || !d.Allowed {
		t.Errorf("the first attempt: allowed %t, error %v, want true", d.Allowed, err)
	}
	most := weir.MaxUnits - 1
	for _, limit := range p.Limits {
		if limit.Cost == 0 {
			most = min(most, cmp.Or(limit.Burst, limit.Max))
		}
	}
	d, err = limiter.Peek(t.Context(), key, most+1)
	if err != nil || d.RetryAfter != weir.Never {
		t.Errorf("an attempt of %d units: retry after %v, error %v, want never", most+1, d.RetryAfter, err)
	}
}
