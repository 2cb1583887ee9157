package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// event is a line of go test -json. See go doc test2json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // a failed build has no Package
	Key, Value                    string // an attribute, see package needs
	Elapsed                       float64
}

// A result is the outcome of one test, or of a package if test is "".
type result struct {
	pkg, test string
	action    string // pass, fail or skip; "" while it runs
	seconds   float64
	output    strings.Builder
	missing   string // the sentence about a missing thing, or ""
}

func (t *result) String() string { return strings.TrimSpace(t.pkg + " " + t.test) }

// function returns the name without subtests.
func (t *result) function() string {
	name, _, _ := strings.Cut(t.test, "/")
	return t.pkg + " " + name
}

// results are the outcomes of a run.
type results struct {
	short bool

	mu                      sync.Mutex // protects the following, and the writer of the run
	passed, failed, skipped int
	later                   int // tests that -short left out
	packages                map[string]*record
	slow                    []*result // test functions
	failures                []string
	missing                 map[string][]string // tests by missing thing
}

func newResults(short bool) *results {
	return &results{short: short, packages: map[string]*record{}, missing: map[string][]string{}}
}

// short returns the directory of a package.
func short(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// fail counts a failure outside of a package.
func (r *results) fail(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(name)
}

func (r *results) failLocked(name string) {
	r.failed++
	r.failures = append(r.failures, name)
}

// skipLocked counts a skip, by its reason.
func (r *results) skipLocked(reason, name string) {
	r.skipped++
	if !slices.Contains(r.missing[reason], name) {
		r.missing[reason] = append(r.missing[reason], name)
	}
}

// withCompiler returns the flags without -race where the race detector's compiler is missing.
func (r *results) withCompiler(flags []string) []string {
	if _, err := exec.LookPath("gcc"); err == nil {
		return flags
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipLocked("gcc is not installed; run `make tools`", "the race detector of all packages")
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == "-race" })
}

// output prints one step while it runs.
type output struct {
	*results
	w        io.Writer
	open     map[string]map[string]*result // by package and test
	build    strings.Builder               // output of failed builds that is not printed yet
	reported bool                          // a failure was counted
}

func newOutput(w io.Writer, r *results) *output {
	return &output{results: r, w: w, open: map[string]map[string]*result{}}
}

// print prints between the lines of other steps.
func (o *output) print(text ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprint(o.w, text...)
}

// add counts an event, and prints a package that has ended.
func (o *output) add(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Package == "" {
		o.build.WriteString(e.Output)
		return
	}
	tests := o.open[e.Package]
	if tests == nil {
		tests = map[string]*result{}
		o.open[e.Package] = tests
	}
	t := tests[e.Test]
	if t == nil {
		t = &result{pkg: short(e.Package), test: e.Test}
		tests[e.Test] = t
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "attr":
		if e.Key == needs.Attr {
			o.record(t.pkg).need(e.Value)
		} else if e.Key == needs.Missing {
			t.missing = e.Value
		}
	case "pass", "fail", "skip":
		t.action, t.seconds = e.Action, e.Elapsed
		if e.Test != "" {
			o.countLocked(t)
		} else {
			delete(tests, "")
			delete(o.open, e.Package)
			o.endLocked(t, tests)
		}
	}
}

// countLocked counts a test that has ended.
func (o *output) countLocked(t *result) {
	switch {
	case t.action == "pass":
		o.passed++
	case t.action == "fail":
		o.reported = true
		o.failLocked(t.String())
	case t.missing != "":
		o.skipLocked(t.missing, t.function())
	case o.short:
		o.later++
	default:
		o.skipLocked("no need is declared; use internal/testkit/needs", t.function())
	}
	if !strings.Contains(t.test, "/") {
		o.slow = append(o.slow, t)
	}
}

// endLocked prints the package, and the whole output of its failures.
func (o *output) endLocked(p *result, tests map[string]*result) {
	if p.action == "skip" {
		return // it has no tests
	}
	note := fmt.Sprintf("%7.1fs", p.seconds)
	if strings.Contains(p.output.String(), "(cached)") {
		note = "  cached"
	} else {
		o.record(p.pkg).Seconds += p.seconds
	}
	if p.action == "pass" {
		fmt.Fprintf(o.w, "ok    %s  %s\n", note, p.pkg)
		return
	}
	fmt.Fprintf(o.w, "FAIL  %s  %s\n%s", note, p.pkg, o.build.String())
	o.build.Reset()
	named := false
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t := tests[name]
		if t.action == "" { // the process has ended during the test
			t.action = "fail"
			o.countLocked(t)
		}
		if t.action == "fail" {
			named = true
			fmt.Fprint(o.w, t.output.String())
		}
	}
	fmt.Fprint(o.w, p.output.String())
	if !named {
		o.reported = true
		o.failLocked(p.pkg)
	}
}

// summary prints the slowest packages and tests, the missing things and the counts.
func (r *results) summary(w io.Writer, ci bool) error {
	const most = 5
	fmt.Fprintln(w, "\nslowest packages and tests:")
	names := slices.SortedFunc(maps.Keys(r.packages), func(a, b string) int {
		return int(1000 * (r.packages[b].Seconds - r.packages[a].Seconds))
	})
	for _, name := range names[:min(most, len(names))] {
		fmt.Fprintf(w, "%7.1fs  %s\n", r.packages[name].Seconds, name)
	}
	slices.SortStableFunc(r.slow, func(a, b *result) int { return int(1000 * (b.seconds - a.seconds)) })
	for _, t := range r.slow[:min(most, len(r.slow))] {
		fmt.Fprintf(w, "%7.1fs  %s\n", t.seconds, t)
	}
	for _, sentence := range slices.Sorted(maps.Keys(r.missing)) {
		fmt.Fprintf(w, "skipped: %s\n  %s\n", sentence, strings.Join(r.missing[sentence], "\n  "))
	}
	for _, name := range r.failures {
		fmt.Fprintln(w, "failed:", name)
	}
	if r.later > 0 {
		fmt.Fprintf(w, "make test runs %d more tests, which need a server, another program or time\n", r.later)
	}
	var err error
	if r.failed > 0 {
		err = errors.New("a test failed")
	} else if ci && r.skipped > 0 {
		err = errors.New("a test was skipped, which CI=true forbids")
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	return err
}
