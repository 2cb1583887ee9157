package docs_test

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
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

// TestLinesAreTheLimitsOfGo: docs/policies.md shows lines and the same limits in Go.
func TestLinesAreTheLimitsOfGo(t *testing.T) {
	inGo := map[string]weir.Limit{
		`weir.PerMinute(10, "user").Apart(3 * time.Second)`: weir.PerMinute(10, "user").Apart(3 * time.Second),
		`weir.Per(100, 30*time.Minute)`:                     weir.Per(100, 30*time.Minute),
		`weir.Calendar(1_000, weir.Day, "", "user")`:        weir.Calendar(1_000, weir.Day, "", "user"),
		`weir.Calendar(5, weir.Hour, "Europe/Berlin")`:      weir.Calendar(5, weir.Hour, "Europe/Berlin"),
		`weir.Bucket(10, time.Second, 20, "ip")`:            weir.Bucket(10, time.Second, 20, "ip"),
		`weir.AtOnce(20, 30*time.Second, "user")`:           weir.AtOnce(20, 30*time.Second, "user"),
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `(weir\\.[^`]+)` \\|$").FindAllStringSubmatch(read(t, "docs/policies.md"), -1)
	if len(rows) != len(inGo) {
		t.Errorf("docs/policies.md has %d limits in Go, and this test %d", len(rows), len(inGo))
	}
	for _, row := range rows {
		limit, _, err := policy.ParseLimit(row[1])
		if want, known := inGo[row[2]]; !known || err != nil || !reflect.DeepEqual(limit, want) {
			t.Errorf("%s is %+v, %v; and %s is %+v", row[1], limit, err, row[2], want)
		}
	}
}
