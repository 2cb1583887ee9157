package docs_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/testkit/policytest"
	"github.com/weirlimit/weir/policy"
)

// TestPolicySnippetsAreRead: a policy file that a page shows is one and passes its tests,
// or is one of Envoy's reference service.
func TestPolicySnippetsAreRead(t *testing.T) {
	for _, page := range pages(t) {
		for _, snippet := range snippets(t, page, "yaml") {
			if strings.HasPrefix(snippet, "domain:") {
				if _, err := envoyconf.Parse(page, []byte(snippet)); err != nil {
					t.Error(err)
				}
				continue
			}
			file, err := policy.Parse(page, []byte(snippet))
			if err != nil {
				t.Error(err)
				continue
			}
			for _, test := range file.Tests {
				if failed, err := policytest.Run(test); err != nil || failed != nil {
					t.Errorf("%s: %s: %+v, %v", page, test.Name, failed, err)
				}
			}
		}
	}
}
