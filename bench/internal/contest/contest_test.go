package contest

import (
	"math"
	"strings"
	"testing"
)

func TestResultsCompareRoundByRound(t *testing.T) {
	r := Results{}
	for _, round := range []struct{ a, b float64 }{{10, 25}, {40, 80}, {10, 20}} {
		r.add("w", "a", Metrics{"ns": round.a})
		r.add("w", "b", Metrics{"ns": round.b})
	}
	if got := r.Median("w", "a", "ns"); got != 10 {
		t.Errorf("Median of 10, 40, 10 = %v, want 10", got)
	}
	if got := r.Ratio("w", "b", "a", "ns"); got != 2 {
		t.Errorf("Ratio of 25/10, 80/40, 20/10 = %v, want 2", got)
	}
}

func TestResultsOfAFailedRun(t *testing.T) {
	r := Results{}
	r.add("w", "a", nil)
	r.add("w", "b", Metrics{"ns": 5})
	if got := r.Median("w", "a", "ns"); !math.IsNaN(got) {
		t.Errorf("Median of a run that failed = %v, want NaN", got)
	}
	if got := r.Ratio("w", "b", "a", "ns"); !math.IsNaN(got) {
		t.Errorf("Ratio to a run that failed = %v, want NaN", got)
	}
	r.add("w", "a", Metrics{"ns": 4})
	if got := r.Median("w", "a", "ns"); got != 4 {
		t.Errorf("Median of a failed run and 4 = %v, want 4", got)
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
