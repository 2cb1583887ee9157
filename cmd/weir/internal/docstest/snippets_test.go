package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/policytest"
	"github.com/weirlimit/weir/internal/testkit/program"
	"github.com/weirlimit/weir/policy"
)

// TestPolicySnippetsAreRead: a block of YAML on a page is a policy file that passes its tests,
// a file of Envoy's reference service, or a configuration of weir serve.
func TestPolicySnippetsAreRead(t *testing.T) {
	for _, page := range pages(t) {
		for _, snippet := range markdown.Texts(read(t, page), "yaml") {
			switch {
			case strings.HasPrefix(snippet, "# weir-serve.yaml"):
				path := filepath.Join(t.TempDir(), "weir-serve.yaml")
				if err := os.WriteFile(path, []byte(snippet), 0o666); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command(program.Path(t), "config", "check", path).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", page, err, out)
				}
			case strings.HasPrefix(snippet, "domain:"):
				if _, err := envoyconf.Parse(page, []byte(snippet)); err != nil {
					t.Error(err)
				}
			default:
				checkPolicies(t, page, snippet)
			}
		}
	}
}

func checkPolicies(t *testing.T, page, snippet string) {
	t.Helper()
	file, err := policy.Parse(page, []byte(snippet))
	if err != nil {
		t.Error(err)
		return
	}
	for _, test := range file.Tests {
		if failed, err := policytest.Run(test); err != nil || failed != nil {
			t.Errorf("%s: %s: %+v, %v", page, test.Name, failed, err)
		}
	}
}

// TestQuotesAreInTheirFiles: a block of a page that names a Go file behind its language has the
// lines of that file, whose indentation may differ. The file is compiled and tested:
//
//	```go examples/frameworks/chi.go
func TestQuotesAreInTheirFiles(t *testing.T) {
	for _, page := range pages(t) {
		for _, b := range markdown.Blocks(read(t, page)) {
			if b.Quoted != "" && !strings.Contains(withoutIndent(read(t, b.Quoted)), withoutIndent(b.Text)) {
				t.Errorf("%s:%d: these lines are not in %s; copy them from there:\n%s", page, b.Line, b.Quoted, b.Text)
			}
		}
	}
}

// withoutIndent returns a text with a line feed before its first line, and no indentation.
func withoutIndent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}
