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
	testedOnPage = regexp.MustCompile(`(Redis|Valkey) (\d+\.\d+\.\d+)`)
	minOnPage    = regexp.MustCompile(`older than\s+Redis (\d+\.\d+)`)
	minInCode    = regexp.MustCompile(`use Redis (\d+\.\d+) or later`)
	serverHere   = regexp.MustCompile(`v=(\d+\.\d+\.\d+)`)
)

// TestRedisPageNamesTheServers: the page has the version of each server of the tests, or this
// machine's is newer. The page has the least version of the code.
func TestRedisPageNamesTheServers(t *testing.T) {
	page := read(t, "docs/redis.md")
	least := minOnPage.FindStringSubmatch(page)
	if code := minInCode.FindStringSubmatch(read(t, "weirredis/check.go")); least == nil || code == nil || code[1] != least[1] {
		t.Errorf("redis.md names the least version %q, and the check %q", least, code)
	}
	_, paragraph, _ := strings.Cut(page, "\nTests run on ")
	paragraph, _, _ = strings.Cut(paragraph, " by hand ")
	tested := map[string]string{} // such as 8.1.1, by valkey-8.1
	for _, m := range testedOnPage.FindAllStringSubmatch(paragraph, -1) {
		kind, patch := strings.ToLower(m[1]), m[2]
		tested[kind+strings.TrimPrefix(version.Lang("go"+patch), "go")] = patch
	}
	for _, s := range needs.Servers {
		t.Run(s.String(), func(t *testing.T) {
			patch := tested[strings.Replace(s.String(), "-", "", 1)]
			if patch == "" || !strings.Contains(paragraph, "`"+s.String()+"`") {
				t.Fatalf("redis.md does not say that tests run on %s; it has %v", s, tested)
			}
			out := must.Get(exec.Command(s.Path(t), "--version").Output())(t)
			here := serverHere.FindStringSubmatch(string(out))
			if here == nil || version.Compare("go"+here[1], "go"+patch) < 0 {
				t.Errorf("redis.md says that tests run on %s, and --version prints %s", patch, out)
			}
		})
	}
}
