// Package program builds weir for tests that run it as users do. All tests of a checkout
// share one file. If each package built its own, all dependencies would be compiled again
// for other flags, or by several packages at the same time.
//
// A test that needs the race detector in weir, or its coverage, runs the test binary of
// cmd/weir instead.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// folder holds the program, below the root of the checkout.
const folder = "bin/test"

// Path returns the path of weir, built from this checkout by make build. It declares that
// the test needs make.
func Path(t testing.TB) string {
	t.Helper()
	needs.Program(t, "make")
	path, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Build returns the path of weir for a program that is no test.
func Build() (string, error) { return buildOnce() }

var buildOnce = sync.OnceValues(build)

// build runs make, which does not link a program again that is up to date.
func build() (string, error) {
	root, err := findRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, folder)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return "", fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	path := filepath.Join(dir, "weir")
	before, _ := os.Stat(path) // nil before the first build
	cmd := exec.Command("make", "-C", root, "build", "BIN="+folder)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // without those of an outer make
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	// The go command sets the time of a program that is up to date. A test that has run the
	// program would count as changed.
	if after, err := os.Stat(path); err == nil && before != nil && os.SameFile(before, after) {
		os.Chtimes(path, time.Time{}, before.ModTime())
	}
	return path, lookAtSources(root)
}

// lookAtSources reads the time of each source file of weir. The go command records that in
// the inputs of the test. After a change of a file it does not report a cached result.
func lookAtSources(root string) error {
	const ours = `{{if .Module}}{{if .Module.Main}}` +
		`{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", ours, "./cmd/weir")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	for name := range strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == '\n' }) {
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	return nil
}

// findRoot returns the root of the checkout that holds the working directory.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd/weir/main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above %s holds cmd/weir/main.go", start)
		}
	}
}
