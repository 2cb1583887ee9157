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

func TestField(t *testing.T) {
	file := filepath.Join(t.TempDir(), "facts")
	text := "processor\t: 0\nmodel name\t: Quick 9000 @ 3: GHz\nmodel names: no\nPRETTY_NAME=\"An OS\"\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for name, want := range map[string]string{
		"model name":  "Quick 9000 @ 3: GHz",
		"PRETTY_NAME": `"An OS"`,
		"model":       unknown,
		"absent":      unknown,
	} {
		if got := field(file, name); got != want {
			t.Errorf("field %q = %q, want %q", name, got, want)
		}
	}
	if got := field(file+"-not-there", "x"); got != unknown {
		t.Errorf("field of a missing file = %q, want %q", got, unknown)
	}
}
