package weir_test

import (
	"fmt"
	"os"
	"os/exec"
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
		if want := []string{"github.com/fsnotify/fsnotify", "go.yaml.in/yaml/v4"}; match[1] == "." && !slices.Equal(direct, want) {
			t.Errorf("the root module requires %q, want %q", direct, want)
		}
	}
	if len(versions) < 50 {
		t.Errorf("only %d requirements were read", len(versions))
	}
}

// TestAProgramNeedsFewModules lists the modules of a program that limits HTTP requests.
func TestAProgramNeedsFewModules(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  fmt.Sprintf("module example.com/p\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", module, root),
		"go.sum":  read(t, "go.sum"),
		"main.go": fmt.Sprintf("package main\n\nimport (\n\t_ %q\n\t_ %q\n)\n\nfunc main() {}\n", module, module+"/weirhttp"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	run("build", "-o", os.DevNull, ".")
	modules := strings.Split(strings.TrimSpace(run("list", "-m", "all")), "\n")
	if !slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(m, module+" ") }) {
		t.Errorf("the program does not need weir: %q", modules)
	}
	for _, m := range modules {
		for _, word := range []string{"grpc", "envoy", "prometheus", "telemetry", "redis", "rueidis"} {
			if strings.Contains(m, word) {
				t.Errorf("a program with weir and weirhttp needs %s", m)
			}
		}
	}
	if len(modules) > 5 {
		t.Errorf("a program with weir and weirhttp has %d modules, want at most 5: %q", len(modules), modules)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
