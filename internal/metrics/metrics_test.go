package metrics

import (
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/observe"
)

// shown returns what /metrics answers.
func shown(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// wantLines checks which lines there are; one that begins with ! must not be there.
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

func TestPolicies(t *testing.T) {
	var inForce []*Policy
	m := New("1.2.3", func() []*Policy { return inForce })
	search := m.Policy("search", []string{"ip", "all"}, nil)
	push := m.Policy("push", []string{"limit"}, nil)
	inForce = []*Policy{search, push}
	for range 3 {
		search.Note(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all", Degraded: true})
	}
	search.Note(observe.Call{Protocol: observe.HTTP, Outcome: observe.Denied, Limit: "nobody knows"})
	search.Note(observe.Call{Protocol: observe.RESP, Outcome: observe.Partial})
	wantLines(t, m,
		`weir_decisions_total{outcome="denied",policy="search",protocol="gate"} 3`,
		`weir_decisions_total{outcome="denied",policy="search",protocol="http"} 1`,
		`weir_decisions_total{outcome="partial",policy="search",protocol="resp"} 1`,
		`weir_decisions_total{outcome="allowed",policy="search",protocol="resp"} 0`,
		`!weir_decisions_total{outcome="partial",policy="search",protocol="http"} 0`,
		`!weir_decisions_total{outcome="allowed",policy="search",protocol="grpc"} 0`,
		`weir_decisions_total{outcome="allowed",policy="push",protocol="http"} 0`,
		`!weir_decisions_total{outcome="allowed",policy="push",protocol="gate"} 0`,
		`weir_denials_total{limit="all",policy="search"} 3`,
		`weir_denials_total{limit="ip",policy="search"} 0`,
		`weir_degraded_decisions_total{policy="search"} 3`)
	if got := search.Calls(observe.Denied); got != 4 {
		t.Errorf("%d denials in all, want 4", got)
	}

	// A reload: one policy leaves, the other has other limits, and whoever still holds
	// the old one counts on.
	next := m.Policy("search", []string{"all", "user"}, search)
	inForce = []*Policy{next}
	search.Note(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all"})
	wantLines(t, m,
		`weir_decisions_total{outcome="denied",policy="search",protocol="gate"} 4`,
		`weir_denials_total{limit="all",policy="search"} 4`,
		`weir_denials_total{limit="user",policy="search"} 0`,
		`!weir_denials_total{limit="ip",policy="search"} 0`,
		`!weir_decisions_total{outcome="allowed",policy="push",protocol="http"} 0`)
}

func TestTook(t *testing.T) {
	m := New("1.2.3", func() []*Policy { return nil })
	m.Took(observe.HTTP, 49*time.Microsecond)
	m.Took(observe.HTTP, 51*time.Microsecond)
	m.Took(observe.HTTP, 3*time.Second)
	wantLines(t, m,
		`weir_decision_duration_seconds_bucket{protocol="http",le="5e-05"} 1`,
		`weir_decision_duration_seconds_bucket{protocol="http",le="0.0001"} 2`,
		`weir_decision_duration_seconds_bucket{protocol="http",le="2.5"} 2`,
		`weir_decision_duration_seconds_count{protocol="http"} 3`,
		`weir_decision_duration_seconds_count{protocol="resp"} 0`)
}

// TestTablesSurviveAnything: whatever names a configuration holds, the rest of the
// answer is there.
func TestTablesSurviveAnything(t *testing.T) {
	m := New("1.2.3", func() []*Policy { return nil })
	m.Table("weir_rows_total", "Rows.", []string{"rule"}, func(yield func(Row)) {
		for _, name := range []string{"a", "a", "q\"\\\n", "bad\xff"} {
			yield(Row{Labels: []string{name}, N: 2})
		}
	})
	wantLines(t, m, `weir_rows_total{rule="a"} 4`, `weir_rows_total{rule="q\"\\\n"} 2`, "weir_rows_total{rule=\"bad\uFFFD\"} 2")
}

// TestCallsAllocateNothing: a call finds its counters without looking for them.
func TestCallsAllocateNothing(t *testing.T) {
	m := New("1.2.3", func() []*Policy { return nil })
	var p observe.Policy = m.Policy("search", []string{"ip", "all"}, nil)
	key := weir.K("192.0.2.1", "b", "c", "d")
	if n := testing.AllocsPerRun(100, func() {
		p.Note(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all", Key: key})
		p.Note(observe.Call{Outcome: observe.Allowed})
		m.Took(observe.Gate, time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestPrometheusLikesIt has Prometheus' own tool look for what it warns of.
func TestPrometheusLikesIt(t *testing.T) {
	m := New("1.2.3", func() []*Policy { return nil })
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(shown(t, m))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics (make tools installs it): %v\n%s", err, out)
	}
}

func BenchmarkNote(b *testing.B) {
	m := New("1.2.3", func() []*Policy { return nil })
	p := m.Policy("search", []string{"ip"}, nil)
	for b.Loop() {
		began := time.Now()
		m.Took(observe.HTTP, time.Since(began))
		p.Note(observe.Call{Outcome: observe.Allowed})
	}
}
