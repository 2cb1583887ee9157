//go:build unix

package docs_test

import (
	"strings"
	"testing"
)

// TestReplayPage runs the command of the page. Its output is the one shown.
func TestReplayPage(t *testing.T) {
	const page = "docs/replay.md"
	commands := snippets(t, page, "sh")
	if len(commands) != 1 {
		t.Fatalf("%s has %d commands, want 1", page, len(commands))
	}
	for language, flag := range map[string]string{"text": "", "json": " --json"} {
		shown := snippets(t, page, language)
		if len(shown) != 1 {
			t.Fatalf("%s has %d outputs in %s, want 1", page, len(shown), language)
		}
		if got := shell(t, root, "export TZ=UTC; "+strings.TrimSpace(commands[0])+flag); got != shown[0] {
			t.Errorf("%s shows\n%s\nand the command prints\n%s", page, shown[0], got)
		}
	}
}
