package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/txtar"
)

// unpack writes the files of archives of testdata into a new directory, which becomes the
// working directory of the test.
func unpack(t *testing.T, archives ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, archive := range archives {
		text, err := os.ReadFile(filepath.Join("testdata", archive))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(text).Files {
			path := filepath.Join(dir, f.Name)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.Do(t, os.WriteFile(path, f.Data, 0o600))
		}
	}
	t.Chdir(dir)
}

// ran runs a tier in the working directory and returns everything printed.
func ran(t *testing.T, args ...string) (printed string, err error) {
	t.Helper()
	var b strings.Builder
	err = run(&b, args)
	return b.String(), err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// TestTiers runs a tree without failures: the counts, the missing thing, CI and the table.
func TestTiers(t *testing.T) {
	needs.Time(t)
	needs.Program(t, "gcc")
	unpack(t, "tree.txtar")
	t.Setenv("CI", "")
	printed, err := ran(t, "quick")
	if want := "3 passed, 0 failed, 1 skipped"; err != nil || lastLine(printed) != want {
		t.Errorf("quick: %v, it printed\n%s\nwant %s", err, printed, want)
	}
	for _, want := range []string{"skipped: an oven is missing; buy one\n  wants TestWants\n", "make test runs 1 more tests"} {
		if !strings.Contains(printed, want) {
			t.Errorf("quick printed\n%s\nwant %q in it", printed, want)
		}
	}

	printed, err = ran(t, "test")
	if want := "4 passed, 0 failed, 1 skipped"; err != nil || lastLine(printed) != want || strings.Contains(printed, "quiet") {
		t.Errorf("test: %v, it printed\n%s\nwant %s", err, printed, want)
	}
	t.Setenv("CI", "true")
	if printed, err = ran(t, "test"); err == nil || strings.Contains(printed, "cached  wants") {
		t.Errorf("test with CI=true: a skip does not fail the run, or it was cached:\n%s", printed)
	}

	printed, err = ran(t, "table")
	if err != nil || !strings.Contains(printed, "| wants | an oven, time | ") || !strings.Contains(printed, "| other |  | ") {
		t.Errorf("table: %v\n%s", err, printed)
	}
}

// TestFailures: each failing package is counted once with its whole output, and others are
// not shown.
func TestFailures(t *testing.T) {
	needs.Time(t)
	needs.Program(t, "gcc")
	unpack(t, "tree.txtar", "failures.txtar")
	printed, err := ran(t, "test")
	if want := "5 passed, 4 failed, 1 skipped"; err == nil || lastLine(printed) != want {
		t.Errorf("%v, it printed\n%s\nwant %s", err, printed, want)
	}
	for _, want := range []string{
		"two and two are five", "panic: out of eggs", "no kitchen", "undefined: undefined",
		"failed: wrong TestWrong\n", "failed: panics TestPanics\n", "failed: exits\n", "failed: broken\n",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("it printed\n%s\nwant %q in it", printed, want)
		}
	}
	if strings.Contains(printed, "of a test that passed") {
		t.Errorf("it printed the output of a test that passed:\n%s", printed)
	}
}

// TestGoItselfFails: a go.mod that cannot be read, and a flag that go test does not have, are
// errors and no empty run.
func TestGoItselfFails(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("go.mod", []byte("nonsense"), 0o600))
	if printed, err := ran(t, "quick"); err == nil || !strings.Contains(err.Error(), "go list") {
		t.Errorf("%v, it printed\n%s", err, printed)
	}
	if err := (step{[]string{"-nonsense"}, nil, nil}).run(t.Output(), newResults(false)); err == nil {
		t.Error("go test -nonsense succeeds")
	}
	if _, err := ran(t, "nightly"); err == nil || !strings.Contains(err.Error(), "quick|test|check|table") {
		t.Errorf("an unknown tier: %v", err)
	}
}

// TestNothingIsLeftOut: go.work has every module of the tree, and the steps of each tier cover
// every package of them but leftOut. The race detector runs where memory is shared.
func TestNothingIsLeftOut(t *testing.T) {
	needs.AllModules(t)
	t.Chdir("../../..")
	all, err := modules(".")
	if err != nil {
		t.Fatal(err)
	}
	work, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		if full, _ := filepath.Abs(dir); !slices.Contains(strings.Fields(string(work)), full) {
			t.Errorf("go.work leaves out the module %s", dir)
		}
	}
	for _, dir := range append(apart, "cmd/weir", "weirgrpc", "weirredis/rueidisconn") {
		if !slices.Contains(all, dir) {
			t.Errorf("no module %s in %q", dir, all)
		}
	}
	everything, err := exec.Command("go", append([]string{"list"}, patterns(all)...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range tiers {
		steps, err := stepsOf(tier)
		if err != nil {
			t.Fatal(err)
		}
		var covered []string
		for _, s := range steps {
			covered = append(covered, s.packages...)
		}
		listed, err := exec.Command("go", append([]string{"list"}, covered...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for pkg := range strings.FieldsSeq(string(everything)) {
			if out := slices.Contains(leftOut[tier], pkg); slices.Contains(strings.Fields(string(listed)), pkg) == out {
				t.Errorf("%s leaves out %s: %v", tier, pkg, !out)
			}
		}
	}
	raced, others, shortened, err := split([]string{".", "cmd/weir", "cmd/weir/internal/report/browsertest"})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "/weirdisk", "/cmd/weir/internal/logs/replay", "/weirhttp"} { // replay runs without the detector, weirhttp has one length
		if got, want := slices.Contains(shortened, module+dir), dir == "" || dir == "/weirdisk"; got != want {
			t.Errorf("%s%s: shortened %v", module, dir, got)
		}
	}
	for _, dir := range racedLater {
		if pkg := module + "/" + dir; slices.Contains(raced, pkg) || !slices.Contains(others, pkg) {
			t.Errorf("%s is not among the packages without the race detector", dir)
		}
	}
	for i, dir := range append(slowest, ".", "internal/keytable", "cmd/weir/internal/server", "cmd/weir/internal/docsrun") {
		pkg := strings.TrimSuffix("github.com/weirlimit/weir/"+dir, "/.")
		inRaced, inOthers := slices.Contains(raced, pkg), slices.Contains(others, pkg)
		if inRaced == inOthers || i > len(slowest) && inRaced != (dir != "cmd/weir/internal/docsrun") {
			t.Errorf("%s: with the race detector %v, without %v", dir, inRaced, inOthers)
		}
	}
}

// TestNoCompilerNoRaceDetector: without gcc packages run without the race detector.
func TestNoCompilerNoRaceDetector(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := newResults(false)
	if got := r.withCompiler([]string{"-race", "-v"}); !slices.Equal(got, []string{"-v"}) || r.skipped != 1 {
		t.Errorf("flags %q, %d skipped; want -v and 1", got, r.skipped)
	}
}
