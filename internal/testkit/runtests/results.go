package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"

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
	short                   bool
	passed, failed, skipped int
	later                   int                           // tests that -short left out
	open                    map[string]map[string]*result // by package and test
	packages                map[string]*record
	slow                    []*result // test functions
	failures                []string
	missing                 map[string][]string // tests by missing thing
	build                   strings.Builder     // output of failed builds that is not printed yet
}

func newResults(short bool) *results {
	return &results{short: short, open: map[string]map[string]*result{}, packages: map[string]*record{}, missing: map[string][]string{}}
}

// short returns the directory of a package.
func short(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// fail counts a failure.
func (r *results) fail(name string) {
	r.failed++
	r.failures = append(r.failures, name)
}

// skip counts a skip, by its reason.
func (r *results) skip(reason, name string) {
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
	r.skip("gcc is not installed; run `make tools`", "the race detector of all packages")
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == "-race" })
}

// add counts an event, and prints a package that has ended.
func (r *results) add(w io.Writer, e event) {
	if e.Package == "" {
		r.build.WriteString(e.Output)
		return
	}
	tests := r.open[e.Package]
	if tests == nil {
		tests = map[string]*result{}
		r.open[e.Package] = tests
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
			r.record(t.pkg).need(e.Value)
		} else if e.Key == needs.Missing {
			t.missing = e.Value
		}
	case "pass", "fail", "skip":
		t.action, t.seconds = e.Action, e.Elapsed
		if e.Test != "" {
			r.count(t)
		} else {
			delete(tests, "")
			delete(r.open, e.Package)
			r.end(w, t, tests)
		}
	}
}

// count counts a test that has ended.
func (r *results) count(t *result) {
	switch {
	case t.action == "pass":
		r.passed++
	case t.action == "fail":
		r.fail(t.String())
	case t.missing != "":
		r.skip(t.missing, t.function())
	case r.short:
		r.later++
	default:
		r.skip("no need is declared; use internal/testkit/needs", t.function())
	}
	if !strings.Contains(t.test, "/") {
		r.slow = append(r.slow, t)
	}
}

// end prints the package, and the whole output of its failures.
func (r *results) end(w io.Writer, p *result, tests map[string]*result) {
	if p.action == "skip" {
		return // it has no tests
	}
	note := fmt.Sprintf("%7.1fs", p.seconds)
	if strings.Contains(p.output.String(), "(cached)") {
		note = "  cached"
	} else {
		r.record(p.pkg).Seconds += p.seconds
	}
	if p.action == "pass" {
		fmt.Fprintf(w, "ok    %s  %s\n", note, p.pkg)
		return
	}
	fmt.Fprintf(w, "FAIL  %s  %s\n%s", note, p.pkg, r.build.String())
	r.build.Reset()
	named := false
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t := tests[name]
		if t.action == "" { // the process has ended during the test
			t.action = "fail"
			r.count(t)
		}
		if t.action == "fail" {
			named = true
			fmt.Fprint(w, t.output.String())
		}
	}
	fmt.Fprint(w, p.output.String())
	if !named {
		r.fail(p.pkg)
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
