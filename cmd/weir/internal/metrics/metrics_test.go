package metrics

import (
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
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

func TestDecisionsAreCountedByPolicy(t *testing.T) {
	var inForce []*Counters
	m := New("1.2.3", func() []*Counters { return inForce })
	search := m.Counters("search", []string{"ip", "all"}, nil, nil)
	push := m.Counters("push", []string{"limit"}, nil, nil)
	inForce = []*Counters{search, push}
	for range 3 {
		search.Count(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all", Degraded: true})
	}
	search.Count(observe.Call{Protocol: observe.HTTP, Outcome: observe.Denied, Limit: "nobody knows"})
	search.Count(observe.Call{Protocol: observe.RESP, Outcome: observe.Partial})
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

	// A reload removes one policy and changes the limits of the other. Decisions in flight
	// under the old policy still count.
	next := m.Counters("search", []string{"all", "user"}, nil, search)
	inForce = []*Counters{next}
	search.Count(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all"})
	wantLines(t, m,
		`weir_decisions_total{outcome="denied",policy="search",protocol="gate"} 4`,
		`weir_denials_total{limit="all",policy="search"} 4`,
		`weir_denials_total{limit="user",policy="search"} 0`,
		`!weir_denials_total{limit="ip",policy="search"} 0`,
		`!weir_decisions_total{outcome="allowed",policy="push",protocol="http"} 0`)
}

func TestDurationsAreCounted(t *testing.T) {
	m := New("1.2.3", func() []*Counters { return nil })
	m.ObserveDuration(observe.HTTP, 49*time.Microsecond)
	m.ObserveDuration(observe.HTTP, 51*time.Microsecond)
	m.ObserveDuration(observe.HTTP, 3*time.Second)
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
	m := New("1.2.3", func() []*Counters { return nil })
	m.Table("weir_rows_total", "Rows.", []string{"rule"}, func(yield func(Row)) {
		for _, name := range []string{"a", "a", "q\"\\\n", "bad\xff"} {
			yield(Row{Labels: []string{name}, N: 2})
		}
	})
	wantLines(t, m, `weir_rows_total{rule="a"} 4`, `weir_rows_total{rule="q\"\\\n"} 2`, "weir_rows_total{rule=\"bad\uFFFD\"} 2")
}

// TestCallsAllocateNothing: counting a call allocates nothing.
func TestCallsAllocateNothing(t *testing.T) {
	m := New("1.2.3", func() []*Counters { return nil })
	p := m.Counters("search", []string{"ip", "all"}, nil, nil)
	key := weir.K("192.0.2.1", "b", "c", "d")
	if n := testing.AllocsPerRun(100, func() {
		p.Count(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all", Key: key})
		p.Count(observe.Call{Outcome: observe.Allowed})
		m.ObserveDuration(observe.Gate, time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestPromtoolFindsNoFault runs promtool check metrics on the answer.
func TestPromtoolFindsNoFault(t *testing.T) {
	m := New("1.2.3", func() []*Counters { return nil })
	cmd := exec.Command(needs.Program(t, "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(shown(t, m))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestWarningsAreCounted: each limit with a share has a series from the start, and a reload
// keeps its count.
func TestWarningsAreCounted(t *testing.T) {
	var inForce []*Counters
	m := New("1.2.3", func() []*Counters { return inForce })
	p := m.Counters("search", []string{"ip", "all"}, []bool{true, false}, nil)
	inForce = []*Counters{p}
	p.Warned("ip")
	p.Warned("nobody knows")
	wantLines(t, m, `weir_warnings_total{limit="ip",policy="search"} 1`, `!weir_warnings_total{limit="all",policy="search"} 0`)
	inForce = []*Counters{m.Counters("search", []string{"all", "ip"}, []bool{true, true}, p)}
	wantLines(t, m, `weir_warnings_total{limit="ip",policy="search"} 1`, `weir_warnings_total{limit="all",policy="search"} 0`)
}
