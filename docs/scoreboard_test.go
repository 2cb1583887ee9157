package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the README's scoreboard anew from bench/RESULTS.md")

// The scoreboard stands between these lines of the README.
const (
	scoreboardBegin = "<!-- scoreboard: begin, from bench/RESULTS.md -->\n"
	scoreboardEnd   = "<!-- scoreboard: end -->\n"
)

// TestReadmeScoreboard: the README shows what the last run of the scoreboard printed, and
// nothing else.
func TestReadmeScoreboard(t *testing.T) {
	readme := read(t, "README.md")
	before, rest, begins := strings.Cut(readme, scoreboardBegin)
	got, after, ends := strings.Cut(rest, scoreboardEnd)
	if !begins || !ends {
		t.Fatalf("README.md has no lines %q and %q", scoreboardBegin, scoreboardEnd)
	}
	want := scoreboard(t)
	if got == want {
		return
	}
	if !*rewrite {
		t.Fatalf("README.md shows\n%s\nbench/RESULTS.md says\n%s\ngo test ./docs -run Scoreboard -rewrite", got, want)
	}
	readme = before + scoreboardBegin + want + scoreboardEnd + after
	if err := os.WriteFile(filepath.Join(root, "README.md"), []byte(readme), 0o666); err != nil {
		t.Fatal(err)
	}
}

// scoreboard returns the contestants with the most grants of each: the first columns of
// the table in RESULTS.md.
func scoreboard(t *testing.T) string {
	t.Helper()
	const head, columns = "| limiter | kind | **worst second** | × limit |", 4
	_, table, ok := strings.Cut(read(t, "bench/RESULTS.md"), head)
	if !ok {
		t.Fatalf("bench/RESULTS.md has no table with the head %q", head)
	}
	var b strings.Builder
	for line := range strings.Lines(head + table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.SplitN(line, "|", columns+2)
		b.WriteString(strings.Join(cells[:columns+1], "|") + "|\n")
	}
	return b.String()
}
