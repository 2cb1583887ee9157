package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// collector reads spans with the generated code of the protocol.
type collector struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex // protects the following
	spans []*wire.Span
	of    string // attributes of the resource
	head  http.Header
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = r.Header
	body, err := io.ReadAll(r.Body)
	request := new(collect.ExportTraceServiceRequest)
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s %s: %v in %.300q", r.URL.Path, r.Header, err, body)
	}
	for _, rs := range request.ResourceSpans {
		c.of = text(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// text returns attributes as text: name=value, one after the other.
func text(attributes []*common.KeyValue) string {
	var b strings.Builder
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			fmt.Fprintf(&b, "%s=%s ", a.Key, v.StringValue)
		case *common.AnyValue_BoolValue:
			fmt.Fprintf(&b, "%s=%t ", a.Key, v.BoolValue)
		}
	}
	return b.String()
}

func closed(t *testing.T, tracer *Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must.Do(t, tracer.Close(ctx))
}

var denied = observe.Span{Protocol: observe.Gate, Policy: `sea"rch`, Outcome: observe.Denied, Limit: "ip", Degraded: true,
	Began: time.Unix(1_795_186_127, 69_717_001), Took: 12_345 * time.Nanosecond}

func TestSpansArrive(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "zone=north")
	c := newCollector(t)
	tracer, err := New(Config{Endpoint: c.URL, Version: "1.2.3", Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	tracer.Span("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", denied)
	tracer.Span("", observe.Span{Policy: "search", Outcome: observe.Error, Began: time.Unix(1, 0)})
	tracer.Span("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", denied) // not sampled by its caller
	closed(t, tracer)
	if len(c.spans) != 2 || tracer.Made() != 2 || tracer.Sent() != 2 {
		t.Fatalf("%d spans, %d made, %d sent; want 2, 2 and 2", len(c.spans), tracer.Made(), tracer.Sent())
	}
	if !strings.Contains(c.of, "service.name=weir service.version=1.2.3 ") || !strings.Contains(c.of, "zone=north ") || c.head.Get("Api-Key") != "k" {
		t.Errorf("resource %s, header %v", c.of, c.head)
	}
	began := uint64(denied.Began.UnixNano())
	for i, want := range []string{
		fmt.Sprint("4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7 8 weir.decide SPAN_KIND_SERVER ", began, " ", began+12_345, " 301 STATUS_CODE_UNSET ",
			`weir.policy=sea"rch weir.front=gate weir.outcome=denied weir.limit=ip weir.degraded=true `),
		fmt.Sprintf("%x  8 weir.decide SPAN_KIND_SERVER 1000000000 1000000000 101 STATUS_CODE_ERROR weir.policy=search weir.front=http weir.outcome=error ", c.spans[1].TraceId),
	} {
		s := c.spans[i]
		got := fmt.Sprintf("%x %x %d %s %s %d %d %x %s %s", s.TraceId, s.ParentSpanId, len(s.SpanId), s.Name, s.Kind, s.StartTimeUnixNano, s.EndTimeUnixNano, s.Flags, s.Status.GetCode(), text(s.Attributes))
		if got != want || len(s.TraceId) != 16 {
			t.Errorf("span %d: got\n%s\nwant\n%s", i, got, want)
		}
	}
}

// TestEnvironment: the SDK reads the endpoint, the name and the sampler.
func TestEnvironment(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_SERVICE_NAME", "limits")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	tracer, err := New(Config{Ratio: -1})
	if err != nil {
		t.Fatal(err)
	}
	tracer.Span("", denied)
	closed(t, tracer)
	if len(c.spans) != 1 || !strings.Contains(c.of, "service.name=limits ") {
		t.Errorf("%d spans of %s", len(c.spans), c.of)
	}
}

// TestRatio: a ratio takes the place of the sampler of the environment.
func TestRatio(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	c := newCollector(t)
	tracer, err := New(Config{Endpoint: c.URL + "/v1/traces", Ratio: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	const calls = 4000
	for range calls {
		tracer.Span("", observe.Span{Began: time.Unix(1, 0)})
	}
	closed(t, tracer)
	if n := len(c.spans); n < calls/5 || n > calls*3/10 {
		t.Errorf("%d of %d calls began a trace, want about a quarter", n, calls)
	}
}

// TestLossesAreLogged: the log has the cause of a loss, or the status of the collector's answer
// with the beginning of its body. It does not name the path, which may hold a token.
func TestLossesAreLogged(t *testing.T) {
	rejects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "who are you? "+strings.Repeat("x", 1<<20))
	}))
	defer rejects.Close()
	const away = "http://127.0.0.1:1" // no other test gets this port, unlike one that a server had
	for url, want := range map[string]string{away: "refused", rejects.URL: "the collector answered 401 Unauthorized (body: who are you?"} {
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		tracer, err := New(Config{Endpoint: url + "/s3cret-path", Ratio: 1, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		tracer.Span("", denied)
		closed(t, tracer)
		text := logged.String()
		if !strings.Contains(text, "spans are lost") || !strings.Contains(text, want) || strings.Contains(text, "s3cret") || len(text) > 500 {
			t.Errorf("logged %.600q, %d bytes; want the loss with %q and without the path", text, len(text), want)
		}
		if tracer.Made() != 1 || tracer.Sent() != 0 {
			t.Errorf("%d of %d sent, want none", tracer.Sent(), tracer.Made())
		}
	}
}

// TestSlowCollectorBlocksNothing: neither a decision nor Close waits for a collector that
// hangs.
func TestSlowCollectorBlocksNothing(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	tracer, err := New(Config{Endpoint: hangs.URL, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		tracer.Span("", denied)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Close(ctx); err == nil {
		t.Error("spans were lost, but Close returned no error")
	}
}

// TestEnvironmentIsChecked: the SDK would ignore these variables, and print them with
// their secrets.
func TestEnvironmentIsChecked(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "u:s3cret@collector:4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:s3cret@collector:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/v1/traces?key=s3cret"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h:s3cret"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "Bearer s3cret"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b,authorization: Bearer s3cret=="},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=s3cret%zz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			tracer, err := New(Config{Endpoint: "http://127.0.0.1:4318"})
			if err == nil {
				tracer.Close(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.name) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: got %v; want an error that names the variable and not its value", c.value, err)
			}
		})
	}
}

// TestUnknownSamplerIsLogged: it is a warning of weir's log, not a line of the SDK on stderr.
func TestUnknownSamplerIsLogged(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "sometimes")
	var logged bytes.Buffer
	tracer, err := New(Config{Endpoint: "http://127.0.0.1:4318", Ratio: -1, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, tracer)
	if !strings.Contains(logged.String(), "unsupported sampler: sometimes") {
		t.Errorf("logged %q", &logged)
	}
}

func TestNewRejects(t *testing.T) {
	for _, c := range []Config{{Endpoint: "collector:4318"}, {Endpoint: "http://"}, {Endpoint: "http://u:p@a"}, {Endpoint: "http://a?key=k"}} {
		if tracer, err := New(c); err == nil {
			tracer.Close(t.Context())
			t.Errorf("%+v is accepted", c)
		}
	}
}
