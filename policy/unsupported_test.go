package policy

import (
	"errors"
	"reflect"
	"testing"

	"github.com/weirlimit/weir"
)

// TestPolicyRejectsPartsThatOnlyEnforceApplies: Policy does not drop parts of the file
// silently. The error names the part, its place and the next step.
func TestPolicyRejectsPartsThatOnlyEnforceApplies(t *testing.T) {
	for words, want := range map[string]string{
		"limit: 5 per minute per user\n    shadow: true":                                                                 "shadow",
		"limit: 5 per minute per user, then block 1h":                                                                    "blocks",
		"limit: 5 per minute per user\n    count: reported":                                                              "count: reported",
		"limit: 5 per minute per user\n    warn: 80%":                                                                    "warn",
		"limit: 5 per minute per user\n    plan-by: plan\n    plans: {pro: 50 per minute}":                               "plans",
		"limit: 5 per minute per user\n    overrides: [{for: {user: ann}, limit: 9 per minute, until: forever, why: x}]": "overrides",
		"limit: 5 per minute per user\n    shadow: true\n    warn: 80%":                                                  "shadow, warn",
		"limit: 5 per minute per user":                                                                                   "",
	} {
		f, err := Parse("weir.yaml", []byte("version: 1\npolicies:\n  login:\n    "+words+"\n"))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		d := f.Definition("login")
		p, err := d.Policy()
		if want != "" {
			want = "weir.yaml:3: policy login uses " + want + ", which a weir.Limiter cannot apply; use package enforce (enforce.Open), which applies the whole file"
			if bad := new(Error); !errors.As(err, &bad) || err.Error() != want {
				t.Errorf("%s:\ngot  %v\nwant %s", words, err, want)
			}
			continue
		}
		if wanted := (weir.Policy{Name: "login", Limits: d.Limits}); err != nil || !reflect.DeepEqual(p, wanted) {
			t.Errorf("%s: got %+v, %v; want %+v", words, p, err, wanted)
		}
	}
}
