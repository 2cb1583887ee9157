package replay

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/policy"
)

// push is ten a minute for each teacher, three seconds apart; bulk allows the part of
// a batch that fits in five a second.
var policies = []weir.Policy{
	{Name: "push", Limits: []weir.Limit{
		{Name: "teacher", Max: 10, Window: time.Minute, MinInterval: 3 * time.Second, By: []string{"teacher"}}}},
	{Name: "bulk", Mode: weir.Partial, Limits: []weir.Limit{
		{Name: "all", Max: 5, Window: time.Second},
		{Name: "each", Max: 3, Window: time.Second, By: []string{"host", "user"}}}},
}

// fileOf returns a file of policies.
func fileOf(policies []weir.Policy) *policy.File {
	f := &policy.File{}
	for _, p := range policies {
		f.Policies = append(f.Policies, &policy.Definition{Name: p.Name, Mode: p.Mode, Limits: p.Limits})
	}
	return f
}

func newRunner(t testing.TB, e engine.Engine) *Runner {
	t.Helper()
	runner, err := New(fileOf(policies), e)
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// run replays the trace on a fresh memory engine and returns the answers.
func run(t *testing.T, trace string) (string, Summary) {
	t.Helper()
	var out strings.Builder
	summary, err := newRunner(t, weir.NewMemory()).Run(strings.NewReader(trace), &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), summary
}

// compareLines compares answers line by line.
func compareLines(t *testing.T, trace []string, got string, want []string) {
	t.Helper()
	answers := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(answers) != len(want) {
		t.Fatalf("got %d answers, want %d:\n%s", len(answers), len(want), got)
	}
	for i := range want {
		if answers[i] != want[i] {
			t.Errorf("%s\ngot  %s\nwant %s", trace[i], answers[i], want[i])
		}
	}
}

// TestErrorsOfTheEngineAreOfTheirLine: an id of another request, and a record above MaxUnits, change
// nothing.
func TestErrorsOfTheEngineAreOfTheirLine(t *testing.T) {
	line := `{"at_us":1,"policy":"push","key":{"teacher":"42"},"op":"record","n":2251799813685247,"id":"a"}` + "\n"
	got, _ := run(t, line+strings.Replace(line, "7,", "6,", 1)+strings.Replace(line, `"a"`, `"b"`, 1)+`{"at_us":1,"policy":"push","key":{"teacher":"42"},"op":"peek","n":0}`)
	answers := strings.Split(got, "\n")
	for i, want := range []string{`"allowed":true`, `"error":"line 2: weir: bad operation id`, `"error":"line 3: weir: too many units`, `"remaining":-2251799813685237,`} {
		if !strings.Contains(answers[i], want) {
			t.Errorf("line %d: got %s, want %s", i+1, answers[i], want)
		}
	}
}

func TestSummary(t *testing.T) {
	lines := []string{
		`{"at_us":5000000,"policy":"push","key":{"teacher":"1"}}`,
		`{"at_us":5000000,"policy":"push","key":{"teacher":"1"}}`,
		`{"at_us":4000000,"policy":"push","key":{"teacher":"2"},"op":"peek"}`,
		`{"at_us":9000000,"policy":"bulk","key":{"host":"h","user":"u"},"n":4}`,
		`{"at_us":9000000,"policy":"bulk","key":{"host":"h","user":"u"},"n":1}`,
		``,
		`{"at_us":9900000,"policy":"bulk"}`,
		`{"at_us":9900000,"policy":"none"}`,
	}
	want := Summary{Lines: 7, Counts: Counts{Allowed: 2, Denied: 2, Other: 1, Errors: 2}, FirstAt: 4_000_000, LastAt: 9_000_000,
		Policies: []PolicySummary{
			{Policy: "push", Counts: Counts{Allowed: 1, Denied: 1, Other: 1}, Limits: []LimitSummary{{Limit: "teacher", Denied: 1}}},
			{Policy: "bulk", Counts: Counts{Allowed: 1, Denied: 1, Errors: 1}, Limits: []LimitSummary{{Limit: "all"}, {Limit: "each", Denied: 1, Cut: 1}}},
		}}
	if _, got := run(t, strings.Join(lines, "\n")); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, got := run(t, "\n\n"); got.Lines != 0 || got.Policies == nil || len(got.Policies) != 0 {
		t.Errorf("an empty trace: got %+v, want an empty list of policies", got)
	}
}

func TestNewRejectsBadPolicies(t *testing.T) {
	var bad *weir.PolicyError
	if _, err := New(fileOf([]weir.Policy{{Name: "p"}}), weir.NewMemory()); !errors.As(err, &bad) {
		t.Errorf("a policy without limits: got %v, want a *weir.PolicyError", err)
	}
}

// broken is an engine that returns an error for each request.
type broken struct{ err error }

func (b broken) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Fail(b.err)
	}
}

const threeLines = "garbage\n" + `{"at_us":1,"policy":"push","key":{"teacher":"42"}}` + "\ngarbage\n"

// The first error of the engine ends the replay. ErrFull concerns one key only (R13).
func TestRunStopsWhenTheEngineCannotDecide(t *testing.T) {
	gone := errors.New("the store is gone")
	var out strings.Builder
	summary, err := newRunner(t, broken{err: gone}).Run(strings.NewReader(threeLines), &out)
	if !errors.Is(err, gone) || !strings.HasPrefix(err.Error(), "line 2: ") || summary.Lines != 1 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("got %+v, %q and %v; want the answers before line 2, and line 2: %v", summary, out.String(), err, gone)
	}
	summary, err = newRunner(t, broken{err: weir.ErrFull}).Run(strings.NewReader(threeLines), &out)
	want := `{"at_us":1,"error":"line 2: ` + weir.ErrFull.Error() + `"}`
	if err != nil || summary.Lines != 3 || summary.Errors != 3 || !strings.Contains(out.String(), want) {
		t.Errorf("full: got %+v, %v and %s; want 3 lines with an error each, and %s", summary, err, out.String(), want)
	}
}
