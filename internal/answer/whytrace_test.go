package answer_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

var rewrite = flag.Bool("rewrite", false, "write the sentences of testdata/why.txt instead of comparing with them")

// TestWhy decides the calls of testdata/why.txt in virtual time and compares the sentences.
func TestWhy(t *testing.T) {
	const path = "testdata/why.txt"
	var written strings.Builder
	var rule *enforce.Rule
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		call, want, decides := strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
		if decides {
			got := ""
			switch call {
			case "numbers":
				got = numbers(decided(t, rule, []string{"@0s", "peek", "1"}))
			case "bound":
				a := decided(t, rule, []string{"@0s", "peek", "1"})
				got = answer.Bound(&a.Compiled.Limits[0], &a.States[0])
			default:
				a := decided(t, rule, strings.Fields(call))
				got = a.Why(nil)
			}
			if line = call + " -> " + got + "\n"; got != want && !*rewrite {
				t.Errorf("%v, %s\ngot  %s\nwant %s", rule.Definition.Limits, call, got, want)
			}
		} else if strings.Contains(line, ": {") {
			set := enforce.Set{Engine: weir.NewMemory()}
			file, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  "+line))
			if err != nil {
				t.Fatal(err)
			}
			must.Do(t, set.Reload(file, nil))
			rule = set.Version().Rules[0]
		}
		written.WriteString(line)
	}
	if *rewrite {
		must.Do(t, os.WriteFile(path, []byte(written.String()), 0o644))
	}
}

// decided decides a call, "@INSTANT [OPERATION] UNITS", for the key 42. The operation wait is an
// attempt that may wait.
func decided(t *testing.T, rule *enforce.Rule, words []string) answer.Answer {
	t.Helper()
	at, err := time.ParseDuration(words[0][1:])
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r := enforce.Request{N: n, At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(at), States: make([]weir.LimitState, len(rule.Limits))}
	if len(words) > 2 {
		switch words[1] {
		case "peek":
			r.Op = engine.Peek
		case "record":
			r.Op = engine.Record
		case "wait":
			r.MaxWait = weir.Never
		}
	}
	if len(rule.Dimensions()) > 0 {
		r.Key = weir.K("42")
	}
	o, err := rule.Decide(context.Background(), &r)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Answer{Compiled: o.Limiter.Compiled(), Key: r.Key, Op: r.Op, N: r.N, Decision: o.Decision, States: r.States, Units: o.Units, Blocked: o.Applied.Blocked}
}

// numbers returns the worst case, the quota and the longest denial of a limit, in numbers and in
// words.
func numbers(a answer.Answer) string {
	l := &a.Compiled.Limits[0]
	quota, unit := answer.Quota(l)
	longest, reason := answer.Longest(l)
	return fmt.Sprintf("worst %d; quota in %v of %q; denies for %v, %s; %s; %q; %s", answer.Worst(l), time.Duration(quota)*time.Microsecond, unit, longest, reason,
		answer.WorstCase(l, "LENGTH"), answer.Uncounted(l), answer.Window(l, &a.States[0]))
}
