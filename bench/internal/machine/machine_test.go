package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestCommitWithoutGeneratedFiles runs in a directory below the top, as the benchmarks do.
func TestCommitWithoutGeneratedFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.Mkdir("bench", 0o700))
	write := func(name, text string) { must.Do(t, os.WriteFile(filepath.FromSlash(name), []byte(text), 0o600)) }
	git := func(args ...string) { must.Do(t, exec.Command("git", args...).Run()) }
	write("bench/results.csv", "old")
	write("bench/main.go", "old")
	git("init", "-q")
	git("add", ".")
	git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first")
	write("bench/results.csv", "new")
	t.Chdir("bench")
	if got := Here("bench/results.csv").Commit; len(got) != 12 {
		t.Errorf("only a generated file differs: got %q, want the commit alone", got)
	}
	write("main.go", "new")
	if got := Here("bench/results.csv").Commit; !strings.HasSuffix(got, "with uncommitted changes") {
		t.Errorf("another file differs: got %q, want a note", got)
	}
}
