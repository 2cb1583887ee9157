package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goTestCommand = regexp.MustCompile(`go test \./?(\S+)? -run '?([\w/\\|]+)`)
	makeCommand   = regexp.MustCompile("`make ([a-z-]+)")
)

// TestGuaranteesNameTests: a command of docs/guarantees.md names tests of its package, or a target of
// the Makefile. A command that runs no test would pass.
func TestGuaranteesNameTests(t *testing.T) {
	page, makefile, found := read(t, "docs/guarantees.md"), read(t, "Makefile"), 0
	for _, m := range goTestCommand.FindAllStringSubmatch(page, -1) {
		files, err := filepath.Glob(filepath.Join("../../../..", m[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		tests := ""
		for _, file := range files {
			tests += read(t, strings.TrimPrefix(filepath.ToSlash(file), "../../../../"))
		}
		for name := range strings.SplitSeq(m[2], `\|`) {
			found++
			name, _, _ = strings.Cut(name, "/")
			if !strings.Contains(tests, "\nfunc "+name) {
				t.Errorf("docs/guarantees.md has %s, and the package has no test %s", m[0], name)
			}
		}
	}
	for _, m := range makeCommand.FindAllStringSubmatch(page, -1) {
		found++
		if !strings.Contains(makefile, "\n"+m[1]+": ") {
			t.Errorf("docs/guarantees.md has make %s, and the Makefile has no such target", m[1])
		}
	}
	if found < 30 {
		t.Errorf("docs/guarantees.md has %d tests and targets", found)
	}
}
