package docs_test

import (
	"go/version"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// TestRedisPageShowsTheClusterReport: `weir validate --cluster` prints the lines of the page.
func TestRedisPageShowsTheClusterReport(t *testing.T) {
	cmd := exec.Command(program.Path(t), "validate", "--cluster", "weir.yaml")
	cmd.Dir = "testdata/cluster"
	out := output(t, cmd)
	found := false
	for _, b := range blocksOfPage(read(t, "docs/redis.md")) {
		if !strings.HasPrefix(b.text, "weir.yaml: ok") {
			continue
		}
		found = true
		for line := range strings.Lines(b.text) {
			if strings.TrimSpace(line) != "…" && !strings.Contains(out, line) {
				t.Errorf("redis.md shows %q, and the command prints\n%s", line, out)
			}
		}
	}
	if !found {
		t.Error("redis.md shows no output of weir validate --cluster")
	}
}

var (
	testedOnPage = regexp.MustCompile(`run on Redis (\d+\.\d+\.\d+)`)
	minOnPage    = regexp.MustCompile(`older than\s+Redis (\d+\.\d+)`)
	minInCode    = regexp.MustCompile(`use Redis (\d+\.\d+) or later`)
	serverHere   = regexp.MustCompile(`v=(\d+\.\d+\.\d+)`)
)

// TestRedisPageNamesTheServer: the version of the page is that of the server in these tests,
// or that server is newer. The page has the least version of the code.
func TestRedisPageNamesTheServer(t *testing.T) {
	page := read(t, "docs/redis.md")
	tested, least := testedOnPage.FindStringSubmatch(page), minOnPage.FindStringSubmatch(page)
	if tested == nil || least == nil {
		t.Fatal("redis.md does not name the version that tests run on, and the least version")
	}
	out := must.Get(exec.Command(needs.Program(t, "redis-server"), "--version").Output())(t)
	here := serverHere.FindStringSubmatch(string(out))
	if here == nil {
		t.Fatalf("redis-server --version prints %s", out)
	}
	if version.Compare("go"+here[1], "go"+tested[1]) < 0 {
		t.Errorf("redis.md says that tests run on Redis %s, and this machine has %s", tested[1], here[1])
	}
	if code := minInCode.FindStringSubmatch(read(t, "weirredis/check.go")); code == nil || code[1] != least[1] {
		t.Errorf("redis.md names the least version %s, and the check %q", least[1], code)
	}
}
