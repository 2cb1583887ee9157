package metrics

import (
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// shown returns the answer to /metrics.
func shown(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// wantLines checks for lines of the answer. A line that begins with ! must be missing.
func wantLines(t *testing.T, m *Metrics, lines ...string) {
	t.Helper()
	text := shown(t, m)
	have := strings.Split(text, "\n")
	for _, line := range lines {
		line, absent := strings.CutPrefix(line, "!")
		if slices.Contains(have, line) == absent {
			t.Errorf("line %s: absent is %v, want it the other way in\n%s", line, !absent, text)
		}
	}
}

func TestDurationsAreCounted(t *testing.T) {
	m := New("1.2.3")
	m.Took[observe.HTTP].Observe((49 * time.Microsecond).Seconds())
	m.Took[observe.HTTP].Observe((51 * time.Microsecond).Seconds())
	m.Took[observe.HTTP].Observe((3 * time.Second).Seconds())
	wantLines(t, m,
		`weir_decision_duration_seconds_bucket{protocol="http",le="5e-05"} 1`,
		`weir_decision_duration_seconds_bucket{protocol="http",le="0.0001"} 2`,
		`weir_decision_duration_seconds_bucket{protocol="http",le="2.5"} 2`,
		`weir_decision_duration_seconds_count{protocol="http"} 3`,
		`weir_decision_duration_seconds_count{protocol="resp"} 0`)
}

// TestOddNamesDoNotBreakTheAnswer: names with any bytes leave the rest of the answer
// intact.
func TestOddNamesDoNotBreakTheAnswer(t *testing.T) {
	m := New("1.2.3")
	m.Table("weir_rows_total", "Rows.", []string{"rule"}, func(yield func(Row)) {
		for _, name := range []string{"a", "a", "q\"\\\n", "bad\xff"} {
			yield(Row{Labels: []string{name}, N: 2})
		}
	})
	wantLines(t, m, `weir_rows_total{rule="a"} 4`, `weir_rows_total{rule="q\"\\\n"} 2`, "weir_rows_total{rule=\"bad\uFFFD\"} 2")
}

// TestPromtoolFindsNoFault runs promtool check metrics on the answer.
func TestPromtoolFindsNoFault(t *testing.T) {
	m := New("1.2.3")
	cmd := exec.Command(needs.Program(t, "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(shown(t, m))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
