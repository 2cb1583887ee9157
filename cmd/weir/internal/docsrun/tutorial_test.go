//go:build unix

package docsrun_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestTutorial follows docs/tutorial.md as its reader does: each block of Go is the new main.go,
// each block of commands is run, and the text behind it is its output. The checkout has the name
// that the page gives it, and the server another port.
func TestTutorial(t *testing.T) {
	needs.Time(t)
	const page, server = "docs/tutorial.md", "127.0.0.1:6379"
	beside := t.TempDir()
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.Symlink(checkout, filepath.Join(beside, "weir")))
	folder := filepath.Join(beside, "push")

	programs, outputs, printed := 0, 0, ""
	for _, b := range markdown.Blocks(read(t, page)) {
		switch b.Language {
		case "go":
			text := b.Text
			if strings.Contains(text, server) {
				text = strings.ReplaceAll(text, server, redistest.Start(t).Addr)
			}
			write(t, filepath.Join(folder, "main.go"), text)
			programs++
		case "sh":
			dir := folder
			if strings.HasPrefix(b.Text, "mkdir push && cd push\n") {
				dir = beside
			}
			// The modules are those of this checkout, which are in the module cache.
			printed = shell(t, dir, "export GOSUMDB=off; "+b.Text)
		case "text":
			sameButWaits(t, page, b.Text, printed)
			outputs++
		}
	}
	if programs != 4 || outputs != 4 {
		t.Errorf("%s has %d programs and %d outputs, want 4 of each", page, programs, outputs)
	}
}

// waits are the durations in an output.
var waits = regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|µs|s)\b`)

// sameButWaits fails the test unless a program prints what the page shows. A duration may differ
// by a few seconds, on a crowded machine.
func sameButWaits(t *testing.T, page, shown, printed string) {
	t.Helper()
	const most = 10 * time.Second
	want, got := waits.FindAllString(shown, -1), waits.FindAllString(printed, -1)
	if waits.ReplaceAllString(shown, "…") != waits.ReplaceAllString(printed, "…") {
		t.Errorf("%s shows\n%s\nand the program prints\n%s", page, shown, printed)
		return
	}
	for i := range want {
		shown, printed := duration(t, want[i]), duration(t, got[i])
		if off := printed - shown; off.Abs() > most {
			t.Errorf("%s shows %v, and the program prints %v", page, shown, printed)
		}
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
