package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlimit/weir/internal/testkit/markdown"
)

var (
	lineContinues = regexp.MustCompile(`\\?\n\s*`)
	verbOnPage    = regexp.MustCompile(`(?:^|[\s|(;/])weir ((?:[a-z]+\b ?)+)([^|>;\n]*)`)
	flagOnPage    = regexp.MustCompile(`(?:^|[\s` + "`" + `])--([a-z][a-z-]*)`)
)

// TestVerbsAndFlagsOnPagesExist: each command on a page has a verb of weir and flags of that
// verb. A flag without a command is a flag of some verb.
func TestVerbsAndFlagsOnPagesExist(t *testing.T) {
	root := rootCommand()
	known := map[string]bool{"version": true}
	eachFlag(root, func(_ *cobra.Command, f *pflag.Flag) { known[f.Name] = true })
	for page, text := range readPages(t) {
		for _, line := range commandsOf(text) {
			for _, m := range verbOnPage.FindAllStringSubmatch(line, -1) {
				cmd, _, err := root.Find(strings.Fields(m[1]))
				if err != nil || cmd == root {
					t.Errorf("%s: weir has no verb %q: %s", page, m[1], line)
					continue
				}
				for _, f := range flagOnPage.FindAllStringSubmatch(m[2], -1) {
					if cmd.Flags().Lookup(f[1]) == nil {
						t.Errorf("%s: %s has no flag --%s: %s", page, cmd.CommandPath(), f[1], line)
					}
				}
			}
		}
		for _, span := range markdown.Spans(text) {
			if m := flagOnPage.FindStringSubmatch(span); m != nil && strings.HasPrefix(span, "--") && !known[m[1]] {
				t.Errorf("%s: no verb of weir has the flag --%s", page, m[1])
			}
		}
	}
}

// TestDefaultsOnPages: the column of defaults in docs/service.md has the defaults of weir
// serve.
func TestDefaultsOnPages(t *testing.T) {
	const page = "docs/service.md"
	cmd, _, err := rootCommand().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	column, found := -1, 0
	for line := range strings.Lines(readPages(t)[page]) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "flag" {
			column = slices.Index(cells, "default")
		}
		if column >= len(cells) {
			column = -1 // after the table
		}
		m := flagOnPage.FindStringSubmatch(cells[0])
		if column < 0 || m == nil {
			continue
		}
		f := cmd.Flags().Lookup(m[1])
		if f == nil || strings.Trim(f.DefValue, "[]") == "" {
			continue
		}
		found++
		if got, want := strings.Trim(cells[column], "`"), strings.Trim(f.DefValue, "[]"); got != want {
			t.Errorf("%s: the default of --%s is %s, want %s", page, f.Name, got, want)
		}
	}
	if found == 0 {
		t.Errorf("%s has no table of flags with defaults", page)
	}
}

// readPages returns the pages of the repository by their paths.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := filepath.Join("..", "..")
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || name == "node_modules" || name[0] == '.' && name != "."):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			text, err := os.ReadFile(filepath.Join(root, path))
			found[path] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// commandsOf returns commands of a page: lines of scripts, lines after a prompt, other lines
// with weir and flags, and code in text.
func commandsOf(page string) []string {
	var lines []string
	for _, b := range markdown.Blocks(page) {
		for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
			line, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if prompt || b.Language == "sh" || strings.HasPrefix(line, "weir ") && strings.Contains(line, " --") {
				lines = append(lines, line)
			}
		}
	}
	for _, span := range markdown.Spans(page) {
		lines = append(lines, lineContinues.ReplaceAllString(span, " "))
	}
	return lines
}
