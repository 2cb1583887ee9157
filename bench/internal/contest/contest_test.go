package contest

import (
	"fmt"
	"strings"
	"testing"
)

// TestResultsAreComparedByRounds: a run that failed has no metrics and counts in no round.
func TestResultsAreComparedByRounds(t *testing.T) {
	r := Results{}
	for _, round := range []struct{ a, b Metrics }{
		{Metrics{"ns": 10}, Metrics{"ns": 25}}, {Metrics{"ns": 40}, Metrics{"ns": 80}}, {Metrics{"ns": 10}, Metrics{"ns": 20}}, {nil, Metrics{"ns": 1}},
	} {
		r.add("w", "a", round.a)
		r.add("w", "b", round.b)
	}
	r.add("w", "failed", nil)
	got := fmt.Sprint(r.Median("w", "a", "ns"), r.Ratio("w", "b", "a", "ns"), r.Median("w", "failed", "ns"), r.Ratio("w", "b", "failed", "ns"))
	if want := "10 2 NaN NaN"; got != want {
		t.Errorf("a median and a ratio, and those of a run that failed: %s, want %s", got, want)
	}
}

func TestChild(t *testing.T) {
	workloads := []Workload{{Name: "w", Run: func(c string) Metrics { return Metrics{"length": float64(len(c))} }}}
	var out strings.Builder
	if err := Child(workloads, "w", "four", &out); err != nil || strings.TrimSpace(out.String()) != `{"length":4}` {
		t.Errorf(`Child(w, four) wrote %q, %v; want {"length":4}`, out.String(), err)
	}
	if err := Child(workloads, "x", "four", &out); err == nil {
		t.Error("Child of an unknown workload gave no error")
	}
}
