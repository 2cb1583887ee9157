// Package needs declares the things that a test needs beside the Go toolchain: a program, a
// right, time. Where one is missing, the test is skipped with a sentence that names it and
// the next step. A test without a declaration fails there instead. Build tags were an
// alternative, but a test that they exclude is not even counted.
//
// With -short every test that declares a need is skipped, so `go test -short` is `make quick`.
//
// A need and a missing thing are attributes of the test ([testing.T.Attr]). The runner of
// `make test` counts skips by them.
package needs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The keys of attributes.
const (
	Attr    = "needs"   // value: the thing
	Missing = "missing" // value: the sentence with the next step
)

// WholeTreeVariable is a variable of the environment that runtests sets to true, for AllModules.
const WholeTreeVariable = "WEIR_TEST_WHOLE_TREE"

// Time declares that the test takes more than a second.
func Time(t testing.TB) {
	t.Helper()
	declare(t, "time")
}

// Program declares an installed program and returns its path. Further names are
// alternatives.
func Program(t testing.TB, name string, others ...string) (path string) {
	t.Helper()
	declare(t, filepath.Base(name))
	for _, n := range append([]string{name}, others...) {
		for _, file := range []string{n, filepath.Join("/usr/sbin", n)} { // Debian's place of servers, not in each PATH
			if path, err := exec.LookPath(file); err == nil {
				return path
			}
		}
	}
	missing(t, name+" is not installed; run `make tools`")
	return ""
}

// Envoy declares Envoy, of PATH or of scripts/tools, and returns its path.
func Envoy(t testing.TB) (path string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		return Program(t, "envoy")
	}
	return Program(t, "envoy", filepath.Join(cache, "weir-tools", "envoy", "envoy"))
}

// Browser declares Chromium or Chrome and returns its path.
func Browser(t testing.TB) (path string) {
	t.Helper()
	return Program(t, "chromium", "google-chrome", "chromium-browser")
}

// Tmpfs declares the right to mount a file system, and returns the directory of a new one,
// which is bounded to a size such as 1m. It is unmounted with the test.
func Tmpfs(t testing.TB, size string) (dir string) {
	t.Helper()
	declare(t, "root")
	dir = t.TempDir()
	if err := mount(dir, size); err != nil {
		missing(t, fmt.Sprintf("the right to mount a file system is missing (%v); "+
			"run the test as root on Linux, in a container with CAP_SYS_ADMIN", err))
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Namespaces declares user and mount namespaces, as unshare makes them.
func Namespaces(t testing.TB) {
	t.Helper()
	declare(t, "namespaces")
	if out, err := exec.Command("unshare", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("user namespaces are missing (unshare: %v %s); allow them with "+
			"`sysctl kernel.unprivileged_userns_clone=1` or run the test outside a container",
			err, bytes.TrimSpace(out)))
	}
}

// AllModules declares that the test loads or compiles the packages of every module of go.work. On a
// new machine that takes minutes and downloads what no test of the module needs. So `go test ./...`
// leaves the test out, and `make quick` and `make test` run it.
func AllModules(t testing.TB) {
	t.Helper()
	Have(t, "the whole tree", os.Getenv(WholeTreeVariable) == "true", "run `make test`, or set "+WholeTreeVariable+"=true")
}

// Have declares a thing of the system for which the test has looked, with the next step
// where it is missing. It costs nothing, so the test also runs with -short.
func Have(t testing.TB, thing string, found bool, next string) {
	t.Helper()
	t.Attr(Attr, thing)
	if !found {
		missing(t, thing+" is missing; "+next)
	}
}

// declare records the need and skips the test with -short.
func declare(t testing.TB, thing string) {
	t.Helper()
	t.Attr(Attr, thing)
	if testing.Short() {
		t.Skipf("-short leaves out tests that need %s", thing)
	}
}

// missing skips the test, since a machine without the thing must still run the others. The
// summary of runtests counts and explains each skip, and with CI=true one fails the run.
func missing(t testing.TB, sentence string) {
	t.Helper()
	sentence = strings.Join(strings.Fields(sentence), " ")
	t.Attr(Missing, sentence)
	t.Skip(sentence) // the one skip of the project, for machines that cannot have the thing; in CI runtests fails on it
}
