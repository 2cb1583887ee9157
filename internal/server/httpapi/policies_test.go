package httpapi

import (
	"testing"

	"github.com/weirlimit/weir/policy"
)

func TestKindOfAListedLimit(t *testing.T) {
	f, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  p:\n    limits:\n"+
		"      a: 5 per day per user, fixed\n      b: 5 per hour, fixed from the first hit\n      c: 5 per minute\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"fixed", "fixed-from-first-hit", ""} {
		if got := showLimit(f.Policies[0], i); got.Kind != want {
			t.Errorf("limit %s: kind %q, want %q", got.Name, got.Kind, want)
		}
	}
}
