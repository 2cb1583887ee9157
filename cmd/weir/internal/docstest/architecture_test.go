package docs_test

import (
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	packageRow      = regexp.MustCompile("(?m)^\\| ((?:`[\\w/]+`(?: \\(root\\))?(?:, )?)+) \\| .+ \\|$")
	goroutineBullet = regexp.MustCompile(`(?s)- \*\*No decision needs a background goroutine\.\*\*.*?\n\n`)
	goStatement     = regexp.MustCompile(`(?m)^\t+(go (func\(|\w)|[\w.]+\.Go\()`)
	inBackticks     = regexp.MustCompile("`([^`\n]+)`")
)

// TestArchitectureNamesThePackages: the rows of the page are packages, and each package
// that programs can import is in a row or below one.
func TestArchitectureNamesThePackages(t *testing.T) {
	var listed []string
	for _, row := range packageRow.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		for _, m := range inBackticks.FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, m[1])
		}
	}
	if len(listed) < 20 {
		t.Fatalf("architecture.md lists %q", listed)
	}
	for _, dir := range listed {
		if dir == "weir" {
			dir = "."
		}
		if found, _ := filepath.Glob(filepath.Join(root, dir, "*.go")); len(found) == 0 {
			t.Errorf("architecture.md lists %s, which is no package", dir)
		}
	}
	for _, dir := range libraries(t) {
		in := func(row string) bool { return dir == "." || dir == row || strings.HasPrefix(dir, row+"/") }
		if !slices.ContainsFunc(listed, in) {
			t.Errorf("architecture.md does not list the package %s", dir)
		}
	}
}

// TestArchitectureIsShort: a newcomer reads the page in ten minutes.
func TestArchitectureIsShort(t *testing.T) {
	page := read(t, "docs/architecture.md")
	if n := len(strings.Fields(page)); n > 1500 {
		t.Errorf("architecture.md has %d words, want at most 1,500", n)
	}
	if n := len(blocksOfPage(page)); n != 1 {
		t.Errorf("architecture.md has %d pictures, want one", n)
	}
}

// libraries returns the directories of the packages that programs can import.
func libraries(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, file := range files(t, isProgram) {
		dir := path.Dir(file)
		top, _, _ := strings.Cut(dir, "/")
		outside := slices.Contains([]string{"bench", "clients", "cmd", "examples", "scripts"}, top)
		if !outside && !strings.Contains("/"+dir+"/", "/internal/") {
			found[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// TestArchitectureNamesTheGoroutines: the packages that start goroutines are those of the
// paragraph.
func TestArchitectureNamesTheGoroutines(t *testing.T) {
	text := goroutineBullet.FindString(read(t, "docs/architecture.md"))
	if text == "" {
		t.Fatal("architecture.md has no paragraph about goroutines")
	}
	named := map[string]bool{}
	for _, m := range inBackticks.FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	for _, dir := range libraries(t) {
		starts := slices.ContainsFunc(glob(t, dir+"/*.go"), func(file string) bool { return isProgram(file) && goStatement.MatchString(read(t, file)) })
		if starts != named[path.Base(dir)] {
			t.Errorf("%s starts goroutines: %t; architecture.md names it: %t", dir, starts, named[path.Base(dir)])
		}
	}
}
