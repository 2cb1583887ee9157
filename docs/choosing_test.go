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
	blocks := fence.FindAllStringSubmatch(read(t, page), -1)
	commands := 0
	for i, b := range blocks {
		if b[1] != "sh" {
			continue
		}
		commands++
		if i+1 == len(blocks) || blocks[i+1][1] == "sh" {
			t.Fatalf("%s: no output behind %s", page, b[2])
		}
		if got := shell(t, root, strings.TrimSpace(b[2])); got != blocks[i+1][2] {
			t.Errorf("%s shows\n%s\nand the command prints\n%s", page, blocks[i+1][2], got)
		}
	}
	if commands != 5 {
		t.Errorf("%s has %d commands, want 5", page, commands)
	}
}
