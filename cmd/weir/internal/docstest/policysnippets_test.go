package docs_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/testkit/policytest"
	"github.com/weirlimit/weir/internal/testkit/program"
	"github.com/weirlimit/weir/policy"
)

// TestPolicySnippetsAreRead: a policy file that a page shows is one and passes its tests,
// or is one of Envoy's reference service, or a configuration of weir serve.
func TestPolicySnippetsAreRead(t *testing.T) {
	for _, page := range pages(t) {
		for _, snippet := range snippets(t, page, "yaml") {
			if strings.HasPrefix(snippet, "# weir-serve.yaml") {
				path := filepath.Join(t.TempDir(), "weir-serve.yaml")
				write(t, path, snippet)
				if out, err := exec.Command(program.Path(t), "config", "check", path).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", page, err, out)
				}
				continue
			}
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
