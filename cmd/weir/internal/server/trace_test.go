package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
)

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
	body := ask(s, "GET", "/metrics", "").body
	if !strings.Contains(body, `weir_decisions_total{outcome="error",policy="search",protocol="http"} 1`) ||
		!strings.Contains(body, `weir_decisions_total{outcome="error",policy="search",protocol="grpc"} 1`) {
		t.Errorf("want an error of each:\n%s", body)
	}
}
