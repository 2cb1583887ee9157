// Package otlp sends spans of decisions to an OpenTelemetry collector, as OTLP over HTTP.
//
// Trade-off: a span is made when its decision is over, so a decision that never ends has
// none. Spans wait in the bounded queue of OpenTelemetry's SDK. When a collector is slow or
// away they are dropped: a decision never waits for its span.
package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/internal/shorten"
)

// Config configures a Tracer. OpenTelemetry's variables of the environment configure
// everything else.
type Config struct {
	// Endpoint is the collector: http://host:4318, to which /v1/traces is added, or a URL with a
	// path. Default: that of the environment.
	Endpoint string

	Version string // service.version

	// Ratio is the share of the calls without a trace that begin one, 0 … 1. Below 0,
	// $OTEL_TRACES_SAMPLER decides.
	Ratio float64

	Log *slog.Logger // default: no log
}

// Tracer sends spans until Close. It is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	made     atomic.Int64
	sent     atomic.Int64
	losses   observe.Log // at most one line a minute
}

// New starts a tracer.
func New(c Config) (*Tracer, error) {
	if err := checkEnvironment(); err != nil {
		return nil, err
	}
	var to []otlptracehttp.Option
	if c.Endpoint != "" {
		u, err := ParseURL(c.Endpoint)
		if err != nil {
			return nil, err
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/v1/traces"
		}
		to = append(to, otlptracehttp.WithEndpointURL(u.String()))
	}
	exporter, err := otlptracehttp.New(context.Background(), to...)
	if err != nil {
		return nil, redact.Error(err)
	}
	about := resource.WithAttributes(
		attribute.String("service.name", "weir"), attribute.String("service.version", c.Version))
	weir, err := resource.New(context.Background(), resource.WithTelemetrySDK(), about, resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	log := cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // by default it prints to stderr
		log.Warn("traces are not as configured", "error", err)
	}))
	t := &Tracer{losses: observe.Log{To: log, Max: 1, Period: time.Minute}}
	options := []sdk.TracerProviderOption{
		sdk.WithBatcher(counter{exporter, t}),
		sdk.WithResource(weir),
	}
	if c.Ratio >= 0 {
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.Ratio))))
	}
	t.provider = sdk.NewTracerProvider(options...)
	t.tracer = t.provider.Tracer("github.com/weirlimit/weir",
		trace.WithInstrumentationVersion(c.Version))
	return t, nil
}

// ParseURL parses the URL of a collector. Its errors give the problem and, behind a semicolon, the
// next step. They do not repeat the URL: it may hold a password, which the SDK would not send.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "" {
		return nil, errors.New("is not the URL of a collector; write http://host:4318")
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, errors.New("has a password or a query, which is not sent; " +
			"set $OTEL_EXPORTER_OTLP_HEADERS to authorization=VALUE")
	}
	return u, nil
}

// checkEnvironment rejects the variables that the SDK would ignore and print to stderr,
// with the secrets in them.
func checkEnvironment() error {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	} {
		if text := strings.TrimSpace(os.Getenv(name)); text != "" {
			if _, err := ParseURL(text); err != nil {
				return fmt.Errorf("$%s %w", name, err)
			}
		}
	}
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
	} {
		text := strings.TrimSpace(os.Getenv(name))
		if text == "" {
			continue
		}
		for i, pair := range strings.Split(text, ",") {
			if !isField(pair) {
				return fmt.Errorf("$%s: pair %d is not name=value; write authorization=Bearer%%20TOKEN, "+
					"pairs with commas between them, and %%25 for %%", name, i+1)
			}
		}
	}
	return nil
}

// isField reports whether a pair is a header field with a value, which is percent-encoded.
func isField(pair string) bool {
	field, value, _ := strings.Cut(pair, "=")
	_, err := url.PathUnescape(value)
	return err == nil && value != "" && httpguts.ValidHeaderFieldName(strings.TrimSpace(field))
}

// Span makes a span, in the trace of traceparent, the caller's field or "". It contains no
// key. Without a trace, and if the caller does not sample its own, the sampler decides
// whether it is sent.
func (t *Tracer) Span(traceparent string, s observe.Span) {
	fields := propagation.MapCarrier{"traceparent": traceparent}
	parent := propagation.TraceContext{}.Extract(context.Background(), fields)
	_, span := t.tracer.Start(parent, "weir.decide",
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(s.Began))
	if !span.IsRecording() {
		return
	}
	t.made.Add(1)
	span.SetAttributes(
		attribute.String("weir.policy", s.Policy),
		attribute.String("weir.front", s.Protocol.String()),
		attribute.String("weir.outcome", s.Outcome.String()),
	)
	if s.Limit != "" {
		span.SetAttributes(attribute.String("weir.limit", s.Limit))
	}
	if s.Degraded {
		span.SetAttributes(attribute.Bool("weir.degraded", true))
	}
	if s.Outcome == observe.Error {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(s.Began.Add(s.Took)))
}

// Made returns the number of sampled spans.
func (t *Tracer) Made() int64 { return t.made.Load() }

// Sent returns the number of spans that the collector accepted.
func (t *Tracer) Sent() int64 { return t.sent.Load() }

// Close sends the queued spans. If ctx ends first it returns an error, and they are lost.
// Later spans are not sent.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// counter counts and logs the results of an exporter.
type counter struct {
	sdk.SpanExporter
	tracer *Tracer
}

// ExportSpans sends a batch. It returns no error: the SDK would print it to stderr.
func (c counter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := c.SpanExporter.ExportSpans(ctx, spans); err != nil {
		c.tracer.losses.Line(slog.LevelWarn,
			"spans are lost; the collector cannot be reached or rejects them",
			"error", cause(err), "lost", len(spans))
		return nil
	}
	c.tracer.sent.Add(int64(len(spans)))
	return nil
}

// cause returns the reason of a loss for the log, without the URL and with the beginning of
// the collector's answer, which may be megabytes.
func cause(err error) string {
	text := redact.Error(err).Error()
	if _, after, found := strings.Cut(text, "failed to send to "); found {
		if _, status, found := strings.Cut(after, ": "); found {
			text = "the collector answered " + status
		}
	}
	return shorten.Cut(text, 200)
}
