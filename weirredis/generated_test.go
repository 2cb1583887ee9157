package weirredis_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/weirredis"
)

var update = flag.Bool("update", false, "write lua/generated")

// TestGeneratedScripts compares every file of lua/generated with the script that the
// templates make. The server runs the files without comments and indentation. Regenerate
// them with
//
//	go test ./weirredis -run TestGeneratedScripts -update
func TestGeneratedScripts(t *testing.T) {
	texts, err := weirredis.ScriptTexts(weirredis.Source)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		golden := filepath.Join("lua", "generated", name+".lua")
		got := indent(text)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from the script; run this test with -update and review the difference", golden)
		}
		header, _, _ := strings.Cut(got, "\nlocal ")
		for _, part := range []string{"-- KEYS", "-- ARGV", "-- reply"} {
			if !strings.Contains(header, part) {
				t.Errorf("%s: the header has no %q", golden, part)
			}
		}
	}
	if files, _ := filepath.Glob("lua/generated/*"); len(files) != len(texts) {
		t.Errorf("lua/generated has %d files, want one for each of %d scripts", len(files), len(texts))
	}
}

var (
	opens  = regexp.MustCompile(`\b(do|then|function|repeat)\b|\{$`)
	closes = regexp.MustCompile(`\b(end|until|elseif)\b|^\}`)
	first  = regexp.MustCompile(`^(end|until|elseif|else)\b|^\}`)
	quoted = regexp.MustCompile(`'[^']*'|--.*`)
)

// indent indents Lua text by its blocks and removes empty lines.
func indent(text string) string {
	var b strings.Builder
	depth := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		code := quoted.ReplaceAllString(line, "")
		at := depth
		if first.MatchString(code) {
			at--
		}
		b.WriteString(strings.Repeat("  ", max(at, 0)) + line + "\n")
		depth += len(opens.FindAllString(code, -1)) - len(closes.FindAllString(code, -1))
	}
	return b.String()
}
