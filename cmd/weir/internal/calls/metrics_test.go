package calls

import (
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
)

// observed is an Observer with the policies in force.
type observed struct {
	Observer
	inForce []*enforce.Rule
}

func newObserved() *observed {
	o := &observed{Observer: Observer{Metrics: metrics.New("1.2.3"), TopKeys: topkeys.Off, Log: &observe.Log{To: slog.New(slog.DiscardHandler), Max: 1, Period: time.Second}}}
	o.AddMetrics(func() []*enforce.Rule { return o.inForce })
	return o
}

// rule returns a policy with limits of those names, and its observer. warns holds the shares
// of the limits, in percent.
func (o *observed) rule(t *testing.T, name string, limits []string, warns []int, old *Rule) (*enforce.Rule, *Rule) {
	t.Helper()
	p := &policy.Definition{Name: name, WarnPercents: warns}
	for _, limit := range limits {
		p.Limits = append(p.Limits, weir.Limit{Name: limit, Max: 10, Window: time.Minute, By: []string{limit}})
	}
	r, err := enforce.NewRule(p, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	of := o.Rule(r, old)
	r.Handle = of
	return r, of
}

// wantLines checks for lines of the answer. A line that begins with ! must be missing.
func (o *observed) wantLines(t *testing.T, lines ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	o.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	have := strings.Split(w.Body.String(), "\n")
	for _, line := range lines {
		line, absent := strings.CutPrefix(line, "!")
		if slices.Contains(have, line) == absent {
			t.Errorf("line %s: absent is %v, want it the other way in\n%s", line, !absent, w.Body)
		}
	}
}

func TestDecisionsAreCountedByPolicy(t *testing.T) {
	o := newObserved()
	searchRule, search := o.rule(t, "search", []string{"ip", "all"}, nil, nil)
	pushRule, _ := o.rule(t, "push", []string{"limit"}, nil, nil)
	o.inForce = []*enforce.Rule{searchRule, pushRule}
	for range 3 {
		search.Note(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all", Degraded: true})
	}
	search.Note(observe.Call{Protocol: observe.HTTP, Outcome: observe.Denied, Limit: "nobody knows"})
	search.Note(observe.Call{Protocol: observe.RESP, Outcome: observe.Partial})
	o.wantLines(t,
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
	searchRule, _ = o.rule(t, "search", []string{"all", "user"}, nil, search)
	o.inForce = []*enforce.Rule{searchRule}
	search.Note(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all"})
	o.wantLines(t,
		`weir_decisions_total{outcome="denied",policy="search",protocol="gate"} 4`,
		`weir_denials_total{limit="all",policy="search"} 4`,
		`weir_denials_total{limit="user",policy="search"} 0`,
		`!weir_denials_total{limit="ip",policy="search"} 0`,
		`!weir_decisions_total{outcome="allowed",policy="push",protocol="http"} 0`)
}

// TestWarningsAreCounted: each limit with a share has a series from the start, and a reload
// keeps its count.
func TestWarningsAreCounted(t *testing.T) {
	o := newObserved()
	rule, search := o.rule(t, "search", []string{"ip", "all"}, []int{80, 0}, nil)
	o.inForce = []*enforce.Rule{rule}
	search.noteWarnings([]string{"ip"})
	o.wantLines(t, `weir_warnings_total{limit="ip",policy="search"} 1`, `!weir_warnings_total{limit="all",policy="search"} 0`)
	rule, _ = o.rule(t, "search", []string{"all", "ip"}, []int{80, 80}, search)
	o.inForce = []*enforce.Rule{rule}
	o.wantLines(t, `weir_warnings_total{limit="ip",policy="search"} 1`, `weir_warnings_total{limit="all",policy="search"} 0`)
}

// TestCallsAllocateNothing: counting a call allocates nothing.
func TestCallsAllocateNothing(t *testing.T) {
	o := newObserved()
	_, search := o.rule(t, "search", []string{"ip", "all"}, nil, nil)
	key := weir.K("192.0.2.1", "b", "c", "d")
	if n := testing.AllocsPerRun(100, func() {
		search.Note(observe.Call{Protocol: observe.Gate, Outcome: observe.Denied, Limit: "all", Key: key})
		search.Note(observe.Call{Outcome: observe.Allowed})
		o.Metrics.Took[observe.Gate].Observe(time.Millisecond.Seconds())
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
