package program

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestPathIsTheProgramOfMakeBuild: the program has the flags of make build, and is not
// linked again while it is up to date.
func TestPathIsTheProgramOfMakeBuild(t *testing.T) {
	path := Path(t)
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{}
	for _, s := range info.Settings {
		flags[s.Key] = s.Value
	}
	if info.Path != "github.com/weirlimit/weir/cmd/weir" || flags["-trimpath"] != "true" || flags["CGO_ENABLED"] != "0" {
		t.Errorf("%s of %s was built with %v", path, info.Path, flags)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := build(); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(first, again) {
		t.Errorf("a second build replaced the program: %v", err)
	}
}

// TestSourcesAreInputsOfTheTest: the go command reports no cached result of a test that calls
// Path after a change of weir.
func TestSourcesAreInputsOfTheTest(t *testing.T) {
	needs.Program(t, "make")
	log := filepath.Join(t.TempDir(), "log")
	if out, err := exec.Command(os.Args[0], "-test.run=^TestPathIsTheProgramOfMakeBuild$", "-test.testlogfile="+log).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inputs, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cmd/weir/main.go", "cmd/weir/help/weir.txt", "internal/window/history.go"} {
		if !strings.Contains(string(inputs), "/"+name+"\n") {
			t.Errorf("%s is no input", name)
		}
	}
}

// TestPathOutsideOfACheckout: a working directory outside of a checkout is an error.
func TestPathOutsideOfACheckout(t *testing.T) {
	t.Chdir(t.TempDir())
	if path, err := build(); err == nil {
		t.Errorf("got %s; want an error", path)
	}
}
