package otlp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// collector reads spans with the library that collectors use.
type collector struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex // protects the following
	spans []ptrace.Span
	of    map[string]any // attributes of the resource
	head  http.Header
	next  []int // statuses of the next answers; then 200
}

func newCollector(t *testing.T, next ...int) *collector {
	c := &collector{t: t, next: next}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = r.Header
	if len(c.next) > 0 {
		w.WriteHeader(c.next[0])
		c.next = c.next[1:]
		return
	}
	body, err := io.ReadAll(r.Body)
	request := ptraceotlp.NewExportRequest()
	if err == nil {
		err = request.UnmarshalJSON(body)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s %s: %v in %.300s", r.URL.Path, r.Header, err, body)
	}
	for _, rs := range request.Traces().ResourceSpans().All() {
		c.of = rs.Resource().Attributes().AsRaw()
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				c.spans = append(c.spans, s)
			}
		}
	}
}

func newTracer(t *testing.T, c Config) *Tracer {
	t.Helper()
	tracer, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func closed(t *testing.T, tracer *Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := tracer.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

var denied = observe.Span{Protocol: observe.Gate, Policy: `sea"rch`, Outcome: observe.Denied, Limit: "ip", Degraded: true,
	Began: time.Unix(1_795_186_127, 69_717_001), Took: 12_345 * time.Nanosecond}

func TestSpansArrive(t *testing.T) {
	c := newCollector(t)
	tracer := newTracer(t, Config{Endpoint: c.URL, Version: "1.2.3", Ratio: 1, Headers: map[string]string{"api-key": "k"}})
	tracer.Span("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", denied)
	tracer.Span("", observe.Span{Policy: "search", Outcome: observe.Error, Began: time.Unix(1, 0)})
	tracer.Span("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", denied) // not sampled by its caller
	closed(t, tracer)
	if len(c.spans) != 2 || tracer.Sent() != 2 || tracer.Dropped() != 0 {
		t.Fatalf("%d spans, %d sent, %d dropped; want 2, 2 and 0", len(c.spans), tracer.Sent(), tracer.Dropped())
	}
	if c.of["service.name"] != "weir" || c.of["service.version"] != "1.2.3" || c.head.Get("Api-Key") != "k" {
		t.Errorf("resource %v, header %v", c.of, c.head)
	}
	s := c.spans[0]
	if s.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || s.ParentSpanID().String() != "00f067aa0ba902b7" || s.SpanID().IsEmpty() {
		t.Errorf("ids %s, %s, %s", s.TraceID(), s.ParentSpanID(), s.SpanID())
	}
	if s.Name() != "weir.decide" || s.Kind() != ptrace.SpanKindServer || !s.StartTimestamp().AsTime().Equal(denied.Began) || s.EndTimestamp()-s.StartTimestamp() != 12_345 || s.Flags() != 0x301 {
		t.Errorf("%s, %s, %s to %s, flags %x", s.Name(), s.Kind(), s.StartTimestamp(), s.EndTimestamp(), s.Flags())
	}
	got := s.Attributes().AsRaw()
	if len(got) != 5 || got["weir.policy"] != `sea"rch` || got["weir.front"] != "gate" || got["weir.outcome"] != "denied" || got["weir.limit"] != "ip" || got["weir.degraded"] != true {
		t.Errorf("attributes %v", got)
	}
	root := c.spans[1]
	if root.TraceID().IsEmpty() || !root.ParentSpanID().IsEmpty() || root.Status().Code() != ptrace.StatusCodeError || s.Status().Code() != ptrace.StatusCodeUnset {
		t.Errorf("a trace of its own: %s, parent %s, %s; the other is %s", root.TraceID(), root.ParentSpanID(), root.Status().Code(), s.Status().Code())
	}
}

func TestRatio(t *testing.T) {
	c := newCollector(t)
	tracer := newTracer(t, Config{Endpoint: c.URL + "/v1/traces", Ratio: 0.25})
	const calls = 4000
	for range calls {
		tracer.Span("", observe.Span{Began: time.Unix(1, 0)})
	}
	closed(t, tracer)
	if n := len(c.spans); n < calls/5 || n > calls*3/10 {
		t.Errorf("%d of %d calls began a trace, want about a quarter", n, calls)
	}
}

// TestBusyCollectorIsRetried, and one that rejects the spans is not.
func TestBusyCollectorIsRetried(t *testing.T) {
	busy, unwilling := newCollector(t, 503, 429), newCollector(t, 400)
	for c, sent := range map[*collector]int64{busy: 1, unwilling: 0} {
		var logged bytes.Buffer
		tracer := newTracer(t, Config{Endpoint: c.URL, Ratio: 1, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		tracer.Span("", denied)
		closed(t, tracer)
		if tracer.Sent() != sent || tracer.Dropped() != 1-sent || strings.Contains(logged.String(), "spans are lost") != (sent == 0) {
			t.Errorf("%d sent, want %d; %d dropped; log %s", tracer.Sent(), sent, tracer.Dropped(), logged.String())
		}
	}
}

// TestLogHoldsNoURL: the log names neither the query nor the path of an unreachable
// collector; they may hold a token.
func TestLogHoldsNoURL(t *testing.T) {
	needs.Time(t)
	var logged bytes.Buffer
	c := newCollector(t)
	c.Close()
	tracer := newTracer(t, Config{Endpoint: c.URL + "/s3cret-path?api-key=s3cret-query", Ratio: 1, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	tracer.Span("", observe.Span{})
	closed(t, tracer)
	if text := logged.String(); !strings.Contains(text, "spans are lost") || !strings.Contains(text, "refused") || strings.Contains(text, "s3cret") {
		t.Errorf("logged %q; want the loss and its cause, without the URL", text)
	}
}

// TestSlowCollectorBlocksNothing: neither a decision nor Close waits for a collector that
// hangs.
func TestSlowCollectorBlocksNothing(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	tracer := newTracer(t, Config{Endpoint: hangs.URL, Ratio: 1})
	const spans = maxQueue + 2*maxBatch + 100
	for range spans {
		tracer.Span("", denied)
	}
	if tracer.Dropped() == 0 {
		t.Error("the queue has no bound")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Close(ctx); err == nil {
		t.Error("spans were lost, but Close returned no error")
	}
}

func TestNewRejects(t *testing.T) {
	for _, c := range []Config{{}, {Endpoint: "collector:4318"}, {Endpoint: "http://"}, {Endpoint: "http://a", Ratio: 1.5}, {Endpoint: "http://a", Ratio: -1}} {
		if tracer, err := New(c); err == nil {
			tracer.Close(t.Context())
			t.Errorf("%+v is accepted", c)
		}
	}
}

// The examples of https://www.w3.org/TR/trace-context/ and texts that it forbids.
func TestParseParent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for text, want := range map[string]bool{
		good:                      true,
		good[:53] + "00":          true,
		"cc" + good[2:] + "-more": true,
		"cc" + good[2:] + ".more": false,
		good + "-more":            false,
		"ff" + good[2:]:           false,
		"":                        false,
		good[:54]:                 false,
		strings.ToUpper(good):     false,
		good[:3] + strings.Repeat("0", 32) + good[35:]:    false,
		good[:36] + strings.Repeat("0", 16) + "-01":       false,
		"00-4bf92f3577b34da6a3ce929d0e0e473x" + good[35:]: false,
	} {
		if _, ok := parseTraceparent(text); ok != want {
			t.Errorf("%q: %v, want %v", text, ok, want)
		}
	}
	if p, _ := parseTraceparent(good); !p.sampled {
		t.Error("the sampled flag is not read")
	}
}
