package weir_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requirement is a line of a go.mod file: a module path, its version and a comment.
var requirement = regexp.MustCompile(`(?m)^(?:require|\t)\s*([\w./-]+\.[\w./-]+) (v\S+)(?: // (.+))?$`)

// TestModules compares the go.mod files that go.work lists. The versions of a module agree,
// and each direct requirement has its benefit in a comment; benchmarks need none.
func TestModules(t *testing.T) {
	work := read(t, "go.work")
	versions := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(work, -1) {
		file := filepath.Join(match[1], "go.mod")
		var direct []string
		for _, r := range requirement.FindAllStringSubmatch(read(t, file), -1) {
			path, version, comment := r[1], r[2], r[3]
			if first := versions[path]; first != "" && first != version {
				t.Errorf("%s requires %s %s, another module %s; run go work sync and go mod tidy", file, path, version, first)
			}
			versions[path] = version
			if comment == "indirect" {
				continue
			}
			direct = append(direct, path)
			if comment == "" && !strings.HasPrefix(path, module) && match[1] != "./bench" {
				t.Errorf("%s: %s has no comment with its benefit", file, path)
			}
		}
		if want := []string{"go.yaml.in/yaml/v4"}; match[1] == "." && !slices.Equal(direct, want) {
			t.Errorf("the root module requires %q, want %q", direct, want)
		}
	}
	if len(versions) < 50 {
		t.Errorf("only %d requirements were read", len(versions))
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	return string(must(os.ReadFile(file)))
}
