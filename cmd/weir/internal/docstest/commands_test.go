//go:build unix

package docs_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestCommandsOfPages runs the commands of pages in order. The block behind each command is its
// output; a block of JSON behind that is the output with --json.
func TestCommandsOfPages(t *testing.T) {
	needs.Time(t)
	for page, want := range map[string]int{"docs/choosing.md": 5, "docs/replay.md": 1} {
		t.Setenv("DIR", t.TempDir())
		blocks, commands := blocksOfPage(read(t, page)), 0
		for i, b := range blocks {
			if b.language != "sh" {
				continue
			}
			commands++
			if i+1 == len(blocks) || blocks[i+1].language == "sh" {
				t.Fatalf("%s: no output behind %s", page, b.text)
			}
			command := "export TZ=UTC; " + strings.TrimSpace(b.text)
			outputs := map[string]string{command: blocks[i+1].text}
			if page == "docs/replay.md" {
				outputs[command+" --json"] = blocks[i+2].text
			}
			for command, shown := range outputs {
				if got := shell(t, root, command); got != shown {
					t.Errorf("%s shows\n%s\nand %s prints\n%s", page, shown, command, got)
				}
			}
		}
		if commands != want {
			t.Errorf("%s has %d commands, want %d", page, commands, want)
		}
	}
}
