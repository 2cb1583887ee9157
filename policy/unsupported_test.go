package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// TestNewRejectsPartsThatOnlyEnforceApplies: weir.New does not drop parts of a policy of
// a file silently.
func TestNewRejectsPartsThatOnlyEnforceApplies(t *testing.T) {
	for words, want := range map[string]string{
		"limit: 5 per minute per user\n    shadow: true":                                                                 "shadow",
		"limit: 5 per minute per user, then block 1h":                                                                    "blocks",
		"limit: 5 per minute per user\n    count: reported":                                                              "count: reported",
		"limit: 5 per minute per user\n    plan-by: plan\n    plans: {pro: 50 per minute}":                               "plans",
		"limit: 5 per minute per user\n    overrides: [{for: {user: ann}, limit: 9 per minute, until: forever, why: x}]": "overrides",
		"limit: 5 per minute per user":                                                                                   "",
	} {
		f, err := Parse("weir.yaml", []byte("version: 1\npolicies:\n  login:\n    "+words+"\n"))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		_, err = weir.New(f.Policy("login").Policy)
		var bad *weir.PolicyError
		if want == "" && err != nil || want != "" && (!errors.As(err, &bad) || !strings.Contains(bad.Problem, "uses "+want+",")) {
			t.Errorf("%s: got %v, want an error with %q", words, err, want)
		}
	}
}
