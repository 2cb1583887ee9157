// Command runtests runs the tests of every module of go.work in one of three tiers: quick, test and
// check. It prints a line per package, the whole output of failures and a summary. The last
// line is "N passed, N failed, N skipped". `go test ./...` does not leave its module, does not
// count skips, and lists no missing things.
//
//	runtests quick|test|check   run a tier
//	runtests table              print the last run of each tier as a table
//
// A run exits with 1 if a test failed. With CI=true a skipped test fails the run too.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const module = "github.com/weirlimit/weir"

var goCommand = cmp.Or(os.Getenv("GO"), "go")

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	if len(args) == 1 && args[0] == "table" {
		return printTable(w)
	}
	if len(args) != 1 || !slices.Contains(tiers, args[0]) {
		return fmt.Errorf("usage: runtests %s|table, got %q", strings.Join(tiers, "|"), args)
	}
	tier := args[0]
	steps, err := stepsOf(tier)
	if err != nil {
		return err
	}
	r := newResults(tier == "quick")
	last := load(tier)
	var running sync.WaitGroup
	places := make(chan struct{}, abreast)
	for _, s := range steps {
		if tier == "quick" || last.Skipped > 0 {
			s.flags = append(s.flags, "-count=1") // a cached skip would outlive the installation of its tool
		}
		if slices.Contains(s.flags, "-race") {
			s.flags = r.withCompiler(s.flags)
		}
		places <- struct{}{}
		running.Go(func() {
			if err := s.run(w, r); err != nil {
				r.fail(s.String() + ": " + err.Error())
			}
			<-places
		})
	}
	running.Wait()
	if err := r.save(tier, last); err != nil {
		return err
	}
	return r.summary(w, os.Getenv("CI") == "true")
}

// abreast is the number of steps at the same time. Tests wait for servers, disks and
// timeouts, so one step leaves processors idle, above all at its end.
const abreast = 2

// A step is one run of go test.
type step struct {
	flags    []string
	packages []string
	args     []string // for the test binaries
}

func (s step) String() string {
	packages := s.packages
	if len(packages) > 3 {
		packages = []string{fmt.Sprintf("(%d packages)", len(packages))}
	}
	return strings.Join(slices.Concat([]string{"go test"}, s.flags, packages, s.args), " ")
}

// pages are the packages of tests that open pages in a browser, and that run the programs and
// commands of the documentation. They take minutes, and the race detector sees nothing of them.
var pages = []string{module + "/cmd/weir/internal/report/browsertest", module + "/cmd/weir/internal/docsrun"}

// releasing is a program of one goroutine with two hundred packages as dependencies. Only
// `make check` compiles them, and not for the race detector.
const releasing = module + "/release"

// leftOut are the packages that a tier leaves out. Docstest reads pages and runs in make test.
var leftOut = map[string][]string{
	"quick": {releasing},
	"test":  append([]string{releasing}, pages...),
	"check": {module + "/cmd/weir/internal/docstest"},
}

// assembled are the packages that the build tag purego changes, and those that test it: the
// assembly of package keytable, under the memory engine.
var assembled = []string{module + "/internal/keytable", module + "/internal/memory"}

// apart are the modules that `make test` runs without the race detector, for any of their
// imports: benchmarks, and tests in a browser.
var apart = []string{"bench", "cmd/weir/internal/report/browsertest"}

// light links each test program without debugging information, in less than half the time.
const light = "-ldflags=-w"

// later are tests of `make check` alone: one compiles some hundred packages, and one repeats the
// conformance kit with three sizes of chunks. Their packages have a step without the detector there.
const later = "^(TestEveryMutantCompiles|TestConformanceOfLongHistories)$"

// unwatched are tests of cmd/weir that measure the memory of a server without the race detector.
// make test runs them.
const unwatched = "^(TestFloodOfStrangers|TestStrangersEndNoHonestCall)$"

// detecting are the flags of the packages that share memory. `make test` and `make check` have
// the same, so after make test the results of these packages come from the cache.
func detecting() []string { return []string{"-race", light, "-skip=" + later} }

// racedLater are the packages that import sync and that only `make check` runs with the race
// detector, because their tests cost five times as much under it:
//   - cmd/weir has flags and commands. The packages of the service are raced by their own tests.
//   - internal/conformance is raced where it compares an engine: in the tests of all engines.
//   - policy makes no goroutine; it imports sync for values that are made once.
//   - the faults of Redis are longer there, and would be raced twice.
var racedLater = []string{"cmd/weir", "cmd/weir/internal/faulttest", "internal/conformance", "policy"}

// stepsOf returns the steps of a tier.
func stepsOf(tier string) ([]step, error) {
	all, err := modules(".")
	if err != nil {
		return nil, err
	}
	raced, others, shortened, err := split(all)
	if err != nil {
		return nil, err
	}
	var steps []step
	switch tier {
	case "quick":
		most := slices.DeleteFunc(slices.Clone(all), func(dir string) bool { return dir == "release" })
		steps = []step{{[]string{"-short", light}, patterns(most), nil}}
	case "test":
		most := without(others, leftOut[tier]...)
		steps = []step{{detecting(), raced, nil}, {[]string{light}, most, nil}}
	case "check":
		const (
			faults  = module + "/cmd/weir/internal/faulttest"
			mutants = module + "/internal/testkit/mutants"
		)
		unraced := append([]string{releasing}, pages...)
		most := without(others, slices.Concat(leftOut[tier], unraced, []string{faults})...)
		steps = []step{
			{[]string{"-race", light}, []string{faults}, []string{"-args", "-faulttest.seeds=1", "-weirtest.attempts=20000", "-weirtest.hammers=12"}},
			{detecting(), raced, nil},
			{[]string{"-race", light, "-skip=" + unwatched}, most, nil},
			{[]string{light}, append(shortened, unraced...), nil},
			{[]string{light, "-run=" + later}, []string{mutants}, nil},
			{[]string{"-race", "-tags=purego", light}, assembled, nil},
			{[]string{light, "-run=^TestKills$|^TestImages$|^TestDamagedImages$|^TestMixedDirectories$"}, []string{"./weirdisk"}, []string{"-args", "-weirdisk.kills=100", "-weirdisk.images=2000"}},
		}
	}
	return slices.DeleteFunc(steps, func(s step) bool { return len(s.packages) == 0 }), nil
}

// without returns the packages that are not among some.
func without(packages []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(pkg string) bool { return slices.Contains(some, pkg) })
}

// patterns returns the patterns of all packages of the modules.
func patterns(modules []string) (all []string) {
	for _, dir := range modules {
		all = append(all, "./"+path.Join(dir, "..."))
	}
	return all
}

// modules returns the directories of all modules in the tree, the root first. Without go.work
// the go command would leave one out, so a test compares the two.
func modules(root string) (dirs []string, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case name == "testdata" || name == "node_modules" || len(name) > 1 && name[0] == '.' && d.IsDir():
			return fs.SkipDir
		case name == "go.mod":
			dirs = append(dirs, filepath.ToSlash(filepath.Dir(file)))
		}
		return nil
	})
	slices.Sort(dirs)
	return dirs, err
}

// slowest are the packages that begin first, so that none of them runs alone at the end.
var slowest = []string{
	"cmd/weir", "weirredis", "weirdisk", "cmd/weir/internal/docsrun", "cmd/weir/internal/report/browsertest",
	"cmd/weir/internal/faulttest", "cmd/weir/internal/server", "cmd/weir/internal/logs/replay", "cmd/weir/internal/integrations",
}

// split returns the packages of the modules that `make test` runs with the race detector,
// and the others. A package that imports sync or sync/atomic shares memory between goroutines.
// Tests of the raced ones that import testkit/race are shortened by the detector.
func split(modules []string) (raced, others, shortened []string, err error) {
	list := exec.Command(goCommand, append([]string{"list", "-f", "{{.ImportPath}}|{{.Imports}}|{{.TestImports}} {{.XTestImports}}"}, patterns(modules)...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("go list: %w", err)
	}
	words := func(list string) []string {
		return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" []\n", r) })
	}
	for line := range strings.Lines(string(out)) {
		parts := strings.SplitN(line, "|", 3)
		pkg, imports := parts[0], words(parts[1])
		isApart := slices.ContainsFunc(apart, func(dir string) bool { return strings.HasPrefix(short(pkg)+"/", dir+"/") })
		isApart = isApart || slices.Contains(racedLater, short(pkg))
		if isApart || !slices.Contains(imports, "sync") && !slices.Contains(imports, "sync/atomic") {
			others = append(others, pkg)
			continue
		}
		raced = append(raced, pkg)
		if slices.Contains(words(parts[2]), module+"/internal/testkit/race") {
			shortened = append(shortened, pkg)
		}
	}
	rank := func(pkg string) int {
		if i := slices.Index(slowest, short(pkg)); i >= 0 {
			return i
		}
		return len(slowest)
	}
	for _, paths := range [][]string{raced, others} {
		slices.SortStableFunc(paths, func(a, b string) int { return rank(a) - rank(b) })
	}
	return raced, others, shortened, nil
}

// run runs the step, prints its packages and adds their outcomes to r. It returns an error if
// go test itself fails.
func (s step) run(w io.Writer, r *results) error {
	o := newOutput(w, r)
	o.print("== ", s, "\n")
	// A hang should end, but the default of ten minutes may be too short on a busy machine.
	flags := []string{"test", "-json", "-vet=off", "-timeout=30m"}
	cmd := exec.Command(goCommand, slices.Concat(flags, s.flags, s.packages, s.args)...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "WEIR_TEST_WHOLE_TREE=true", // needs.WholeTreeVariable
		"GORACE=atexit_sleep_ms=0") // or each test binary sleeps a second at its end
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			e = event{Action: "output", Output: string(line)}
		}
		o.add(e)
	}
	if err := cmd.Wait(); err != nil && !o.reported {
		return err // no test failed, so go test itself did
	}
	return nil
}
