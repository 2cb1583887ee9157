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
)

// write writes the files of a module into a new directory, which becomes the working
// directory of the test.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Chdir(dir)
}

const head = "package p\n\nimport \"testing\"\n\n"

// tree has two modules. Its packages pass, skip, fail in four ways, and have no tests. The
// skips are text of these fixtures: the command must count and report them.
var tree = map[string]string{
	"go.mod":            "module github.com/weirlimit/weir\n\ngo 1.26\n",
	"p.go":              "package p\n",
	"good/p_test.go":    head + "func TestGood(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Log(\"quiet\") }) }\n",
	"wants/p_test.go":   head + "func TestLater(t *testing.T) {\n\tt.Attr(\"needs\", \"time\")\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n}\n\nfunc TestWants(t *testing.T) {\n\tt.Attr(\"needs\", \"an oven\")\n\tt.Attr(\"missing\", \"an oven is missing; buy one\")\n\tt.Skip()\n}\n",
	"go.work":           "go 1.26\n\nuse (\n\t.\n\t./other\n)\n",
	"other/go.mod":      "module github.com/weirlimit/weir/other\n\ngo 1.26\n",
	"other/p_test.go":   head + "func TestOther(t *testing.T) {}\n",
	"testdata/x/go.mod": "not a module of ours",
}

var failures = map[string]string{
	"wrong/p_test.go":  head + "func TestFirst(t *testing.T) { t.Log(\"of a test that passed\") }\n\nfunc TestWrong(t *testing.T) { t.Error(\"two and two are five\") }\n",
	"panics/p_test.go": head + "func TestPanics(t *testing.T) { panic(\"out of eggs\") }\n",
	"exits/p_test.go":  "package p\n\nimport (\"os\"; \"testing\")\n\nfunc TestMain(m *testing.M) { println(\"no kitchen\"); os.Exit(1) }\n",
	"broken/p_test.go": head + "func TestBroken(t *testing.T) { undefined() }\n",
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
	write(t, tree)
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
	write(t, tree)
	for name, text := range failures {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
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
	write(t, map[string]string{"go.mod": "nonsense"})
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
// every package of them. The race detector runs where memory is shared.
func TestNothingIsLeftOut(t *testing.T) {
	t.Chdir("../../..")
	all := must.Get(modules("."))(t)
	work := must.Get(exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output())(t)
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
	everything := must.Get(exec.Command("go", append([]string{"list"}, patterns(all)...)...).Output())(t)
	for _, tier := range tiers {
		steps := must.Get(stepsOf(tier))(t)
		var covered []string
		for _, s := range steps {
			covered = append(covered, s.packages...)
		}
		listed := must.Get(exec.Command("go", append([]string{"list"}, covered...)...).Output())(t)
		for pkg := range strings.FieldsSeq(string(everything)) {
			if !slices.Contains(strings.Fields(string(listed)), pkg) {
				t.Errorf("%s leaves out %s", tier, pkg)
			}
		}
	}
	raced, others, shortened, err := split([]string{".", "cmd/weir"})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "/weirdisk", "/cmd/weir/internal/logs/replay", "/weirhttp"} { // replay runs without the detector, weirhttp has one length
		if got, want := slices.Contains(shortened, module+dir), dir == "" || dir == "/weirdisk"; got != want {
			t.Errorf("%s%s: shortened %v", module, dir, got)
		}
	}
	for i, dir := range append(slowest, ".", "internal/keytable", "cmd/weir/internal/server", "cmd/weir/internal/docstest") {
		pkg := strings.TrimSuffix("github.com/weirlimit/weir/"+dir, "/.")
		inRaced, inOthers := slices.Contains(raced, pkg), slices.Contains(others, pkg)
		if inRaced == inOthers || i > len(slowest) && inRaced != (dir != "cmd/weir/internal/docstest") {
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
