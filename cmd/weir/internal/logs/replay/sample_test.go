package replay

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the answers of testdata/sample.txt")

// The answers of the sample were computed by hand.
func TestSampleOnBothEngines(t *testing.T) {
	const path = "testdata/sample.txt"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(string(src), "\n")
	var trace []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "{") {
			trace = append(trace, line)
		}
	}
	for name, e := range map[string]engine.Engine{"memory": weir.NewMemory(), "spec": spec.New()} {
		t.Run(name, func(t *testing.T) {
			got := annotate(text, replaySample(t, e, trace))
			if *rewrite && name == "memory" {
				must.Do(t, os.WriteFile(path, []byte(got+"\n"), 0o644))
			} else if got != text {
				compareLines(t, strings.Split(text, "\n"), got, strings.Split(text, "\n"))
			}
		})
	}
}

// replaySample returns the answers to the lines of a trace.
func replaySample(t *testing.T, e engine.Engine, trace []string) []string {
	t.Helper()
	file, err := policy.Load("testdata/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	runner, err := New(file, e)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	summary, err := runner.Run(strings.NewReader(strings.Join(trace, "\n")), &out)
	if err != nil || summary.Lines != int64(len(trace)) {
		t.Fatalf("got %+v, %v; want %d lines", summary, err, len(trace))
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// annotate returns the text with each answer below its line, in place of those
// that stood there.
func annotate(text string, answers []string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "{"):
			out = append(out, line, "=> "+answers[0])
			answers = answers[1:]
		case !strings.HasPrefix(line, "=>"):
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
