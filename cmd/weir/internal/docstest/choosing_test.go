//go:build unix

package docs_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestChoosingPage runs the commands of the page in order. The block behind each command is
// its output.
func TestChoosingPage(t *testing.T) {
	needs.Time(t)
	const page = "docs/choosing.md"
	t.Setenv("DIR", t.TempDir())
	blocks := blocksOfPage(read(t, page))
	commands := 0
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		commands++
		if i+1 == len(blocks) || blocks[i+1].language == "sh" {
			t.Fatalf("%s: no output behind %s", page, b.text)
		}
		if got := shell(t, root, strings.TrimSpace(b.text)); got != blocks[i+1].text {
			t.Errorf("%s shows\n%s\nand the command prints\n%s", page, blocks[i+1].text, got)
		}
	}
	if commands != 5 {
		t.Errorf("%s has %d commands, want 5", page, commands)
	}
}
