package docs_test

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/program"
)

var (
	verbInHelp  = regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`)
	flagInHelp  = regexp.MustCompile(`^ +(?:-\w, )?--([a-z-]+)`)
	defaultIn   = regexp.MustCompile(`\(default\s+"?\[?([^)"\]]*)"?\]?\)`)
	continued   = regexp.MustCompile(`\\\n\s*`)
	verbOnPage  = regexp.MustCompile(`(?:^|[\s|(;/])weir ([a-z]+)\b([^|>;\n]*)`)
	flagOnPage  = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
	tableOnPage = regexp.MustCompile(`(?m)(?:^\|.*\|\n)+`)
)

// A manual has the flags of each verb of weir with their defaults, as the help prints them.
type manual map[string]map[string]string

// readManual reads the help of weir.
func readManual(t *testing.T) manual {
	t.Helper()
	weir := program.Path(t)
	help := func(args ...string) string {
		out, err := exec.Command(weir, append(args, "-h")...).Output()
		if err != nil {
			t.Fatalf("weir %s -h: %v", args, err)
		}
		return string(out)
	}
	verbs := manual{}
	for _, m := range verbInHelp.FindAllStringSubmatch(help(), -1) {
		verbs[m[1]] = flagsIn(help(m[1]))
	}
	for _, verb := range [][]string{{"serve", "--all"}, {"store", "check"}, {"store", "dump"}, {"config", "check"}, {"config", "print", "--all"}} {
		maps.Copy(verbs[verb[0]], flagsIn(help(verb...)))
	}
	if len(verbs) < 10 || len(verbs["serve"]) < 30 {
		t.Fatalf("the help has %d verbs, and %d flags of serve", len(verbs), len(verbs["serve"]))
	}
	return verbs
}

// flagsIn returns the flags in the help of a verb, with their defaults.
func flagsIn(help string) map[string]string {
	flags, name := map[string]string{}, ""
	for line := range strings.Lines(help) {
		if m := flagInHelp.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		if strings.TrimSpace(line) == "" {
			name = ""
		}
		if name != "" {
			flags[name] += line
		}
	}
	for name, text := range flags {
		flags[name] = ""
		if m := defaultIn.FindStringSubmatch(text); m != nil {
			flags[name] = m[1]
		}
	}
	return flags
}

// TestVerbsAndFlagsExist: a command on a page has a verb of weir and its flags. A flag alone
// is one of some verb. A table with a column of defaults has those of the help.
func TestVerbsAndFlagsExist(t *testing.T) {
	verbs := readManual(t)
	known := func(flag string) bool {
		for _, flags := range verbs {
			if _, ok := flags[flag]; ok {
				return true
			}
		}
		return flag == "version"
	}
	commands, alone := 0, 0
	for _, page := range pages(t) {
		for _, line := range commandsOfPage(read(t, page)) {
			for _, m := range verbOnPage.FindAllStringSubmatch(line, -1) {
				flags, ok := verbs[m[1]]
				if !ok {
					t.Errorf("%s: weir has no verb %s: %s", page, m[1], line)
					continue
				}
				commands++
				for _, f := range flagOnPage.FindAllStringSubmatch(m[2], -1) {
					if _, ok := flags[f[1]]; !ok {
						t.Errorf("%s: weir %s has no flag --%s: %s", page, m[1], f[1], line)
					}
				}
			}
			if f := flagOnPage.FindStringSubmatch(line); f != nil && strings.HasPrefix(line, "--") {
				if alone++; !known(f[1]) {
					t.Errorf("%s: no verb of weir has the flag --%s", page, f[1])
				}
			}
		}
	}
	if commands < 40 || alone < 100 {
		t.Errorf("found %d commands and %d flags", commands, alone)
	}
	checkDefaults(t, "docs/service.md", verbs["serve"], 1)
	checkDefaults(t, "docs/choosing.md", verbs["suggest"], 5)
}

// commandsOfPage returns the lines of scripts, those behind a prompt, other ones of weir with
// flags, and code in text.
func commandsOfPage(text string) []string {
	var lines []string
	blocks, rest := fencedBlocks(text)
	for _, b := range append(blocks, indentedBlocks(rest, pageCode, pageBlank)...) {
		for line := range strings.Lines(continued.ReplaceAllString(b.text, " ")) {
			line, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if prompt || b.language == "sh" || strings.HasPrefix(line, "weir ") && strings.Contains(line, " --") {
				lines = append(lines, line)
			}
		}
	}
	for _, m := range inlineCode.FindAllStringSubmatch(rest, -1) {
		lines = append(lines, strings.ReplaceAll(m[1], "\n", " "))
	}
	return lines
}

// checkDefaults compares the tables of flags with a column of defaults.
func checkDefaults(t *testing.T, page string, flags map[string]string, least int) {
	t.Helper()
	found := 0
	for _, table := range tableOnPage.FindAllString(read(t, page), -1) {
		rows := strings.Split(strings.TrimSpace(table), "\n")
		column := slices.Index(cells(rows[0]), "default")
		if column < 0 || cells(rows[0])[0] != "flag" {
			continue
		}
		for _, row := range rows[2:] {
			c := cells(row)
			for _, f := range flagOnPage.FindAllStringSubmatch(strings.ReplaceAll(c[0], "`", " "), -1) {
				want := flags[f[1]]
				if want == "" {
					continue
				}
				if found++; strings.Trim(c[column], "`") != want {
					t.Errorf("%s: the default of --%s is %s, want %s", page, f[1], c[column], want)
				}
			}
		}
	}
	if found < least {
		t.Errorf("%s: found %d defaults", page, found)
	}
}

// cells returns the cells of a row.
func cells(row string) []string {
	c := strings.Split(strings.Trim(row, "|"), "|")
	for i := range c {
		c[i] = strings.TrimSpace(c[i])
	}
	return c
}
