package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/weirdisk"
)

// everything returns the answers to /metrics of several servers, which together use every
// setting, after a call of each kind.
func everything(t *testing.T) []string {
	t.Helper()
	rules, err := envoyconf.Parse("envoy.yaml", []byte("domain: shop\ndescriptors:\n- key: path\n  rate_limit: {unit: minute, requests_per_unit: 5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := recorder.Open(recorder.Config{Path: filepath.Join(t.TempDir(), "trace"), FileBytes: 1 << 20, Files: 1, Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	memory, _ := newServer(t, weir.NewMemory(weir.MaxBytes(1<<20)), func(c *Config) {
		c.Recorder, c.Inline = record, true
		c.RESPListen, c.GRPCListen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		c.Policies.Definition("search").WarnPercents = []int{80}
		c.Policies.Definition("search").Limits[0].Block = time.Hour
	})
	store, _ := newServer(t, fallback.New(down{}, fallback.Allow), func(c *Config) { c.Envoy, c.Tracer = rules, new(spans) })
	engine, err := weirdisk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	disk, _ := newServer(t, fallback.New(engine, fallback.Deny), func(c *Config) { c.Disk = engine })
	var pages []string
	for _, s := range []*Server{memory, store, disk} {
		ask(s, "POST", "/v1/check", searchBody)
		ask(s, "POST", "/v1/reserve", `{"policy":"sms","key":{"phone":"+1"}}`)
		ask(s, "POST", "/v1/check", `{"policy":"sms","key":{"phone":"+1"},"n":10,"max_wait_ms":86400000}`)
		ask(s, "GET", "/gate/search?ip=1", "")
		askEnvoy(t, s, t.Context(), "search", "ip=1")
		on := s.main
		if s.admin != nil {
			on = s.admin
		}
		set := request("PUT", "/v1/overrides/search", `{"key":{"ip":"1"},"max":9,"reason":"r","author":"a"}`)
		on.ServeHTTP(httptest.NewRecorder(), set)
		w := httptest.NewRecorder()
		on.ServeHTTP(w, request("GET", "/metrics", ""))
		pages = append(pages, w.Body.String())
	}
	return pages
}

// TestDocsListEveryMetric: docs/metrics.md and /metrics have the same metrics, types and
// labels.
func TestDocsListEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(weir_\\w+)(?:\\{(\\S+)\\})?` \\| .+ \\|$")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
		slices.Sort(labels)
		listed[m[1]] = typeOnPage(m[1]) + " " + strings.Join(labels, ",")
	}
	found := map[string]string{}
	for _, text := range everything(t) {
		for name, kind := range metricsOf(text) {
			found[name] = kind
		}
	}
	for name, kind := range found {
		if listed[name] != kind {
			t.Errorf("%s: docs/metrics.md has %q, /metrics %q", name, listed[name], kind)
		}
	}
	for name := range listed {
		if found[name] == "" {
			t.Errorf("%s is in docs/metrics.md and nowhere else", name)
		}
	}
}

// typeOnPage returns the type of a metric, by the sentence above the table of the page.
func typeOnPage(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}

var (
	typeLine = regexp.MustCompile(`(?m)^# TYPE (weir_\w+) (\w+)$`)
	label    = regexp.MustCompile(`(\w+)="`)
)

// metricsOf returns the type and the labels of each Weir metric with a series.
func metricsOf(text string) map[string]string {
	all := map[string]string{}
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		series := regexp.MustCompile(`(?m)^` + m[1] + `(?:_count)?(\{.*\})? `).FindStringSubmatch(text)
		if series == nil {
			continue
		}
		var labels []string
		for _, l := range label.FindAllStringSubmatch(series[1], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		all[m[1]] = m[2] + " " + strings.Join(labels, ",")
	}
	return all
}

// TestPrometheusAcceptsTheMetrics runs promtool on the answer to /metrics.
func TestPrometheusAcceptsTheMetrics(t *testing.T) {
	for _, text := range everything(t) {
		cmd := exec.Command(needs.Program(t, "promtool"), "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}
}

// TestMetricsAllocateNothing: counting and timing a decision allocates nothing beyond the
// limiter's allocations.
func TestMetricsAllocateNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	e := policyOf(t, s, "search")
	a := enforce.Request{Target: enforce.Target{Key: weir.K("1"), Plan: 0}, Op: engine.Attempt, N: 1, States: make([]weir.LimitState, 1), Via: &calls.Via{}}
	ctx := t.Context()
	for range 3 {
		e.Decide(ctx, &a)
	}
	if n := testing.AllocsPerRun(100, func() {
		o, err := e.Decide(ctx, &a)
		if err != nil || o.Decision.Allowed {
			t.Fatal(o, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a denial, want none", n)
	}
}

// TestOpenConnectionsAreCounted: the metric counts open connections, not the one that a
// listener waits for.
func TestOpenConnectionsAreCounted(t *testing.T) {
	s, _ := newServer(t, nil)
	start(t, s)
	for want := range 3 {
		if want > 0 {
			c := talkTo(t, dial(t, s), nil)
			if got := c.get("/livez", ""); got != 200 { // by then it is accepted
				t.Fatal(got)
			}
		}
		wantMetrics(t, s, fmt.Sprintf(`weir_connections{listener="main"} %d`, want))
	}
}

// spans records finished spans.
type spans struct {
	parents []string
	all     []observe.Span
}

func (t *spans) Span(parent string, s observe.Span) {
	t.parents, t.all = append(t.parents, parent), append(t.all, s)
}
func (t *spans) Made() int64 { return int64(len(t.all)) }
func (t *spans) Sent() int64 { return int64(len(t.all)) }

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestEveryDecisionHasASpan: decisions on every front have a span in the caller's trace.
func TestEveryDecisionHasASpan(t *testing.T) {
	tracer := new(spans)
	s, _ := newServer(t, nil, func(c *Config) { c.Tracer = tracer })
	within := func(r *http.Request) { r.Header.Set("traceparent", traceparent) }
	ask(s, "POST", "/v1/check", searchBody, within)
	ask(s, "POST", "/v1/peek", searchBody)
	ask(s, "POST", "/v1/check", searchBody)
	ask(s, "GET", "/gate/search?ip=1", "", within)
	ask(s, "GET", "/gate/search?ip=1&n=x", "", within) // bad input is no decision
	askRESP(t, s, "WEIR.RECORD search ip=1")
	askEnvoy(t, s, metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent), "search", "ip=1")
	askEnvoy(t, s, t.Context(), "nowhere", "ip=1")
	var got []string
	for _, s := range tracer.all {
		if s.Began.IsZero() || s.Took < 0 || s.Took > time.Minute {
			t.Errorf("%+v: when?", s)
		}
		got = append(got, s.Protocol.String()+" "+s.Policy+" "+s.Outcome.String()+" "+s.Limit)
	}
	want := []string{"http search allowed ", "http search peeked ", "http search allowed ", "gate search denied limit", "resp search recorded ", "grpc search denied ", "grpc  allowed "}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if want := []string{traceparent, "", "", traceparent, "", traceparent, ""}; !slices.Equal(tracer.parents, want) {
		t.Errorf("parents %q, want %q", tracer.parents, want)
	}
}

// TestErrorsHaveASpan: a request without a decision has a span with the error.
func TestErrorsHaveASpan(t *testing.T) {
	tracer := new(spans)
	s, _ := newServer(t, down{}, func(c *Config) { c.Tracer = tracer })
	ask(s, "POST", "/v1/check", searchBody)
	askEnvoy(t, s, t.Context(), "search", "ip=1")
	if len(tracer.all) != 2 || tracer.all[0].Outcome != observe.Error || tracer.all[1].Outcome != observe.Error {
		t.Errorf("%+v, want two errors", tracer.all)
	}
	wantMetrics(t, s, `weir_decisions_total{outcome="error",policy="search",protocol="http"} 1`, `weir_decisions_total{outcome="error",policy="search",protocol="grpc"} 1`)
}
