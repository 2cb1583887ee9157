package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// telemetry is OpenTelemetry's SDK with a reader of metrics and an exporter of spans in memory.
type telemetry struct {
	reader  *sdkmetric.ManualReader
	meters  *sdkmetric.MeterProvider
	spans   *tracetest.InMemoryExporter
	tracers *sdktrace.TracerProvider
	observe observer
}

func newTelemetry(t *testing.T) *telemetry {
	t.Helper()
	s := &telemetry{reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	s.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader))
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans))
	meter, tracer := s.meters.Meter("example.com/program"), s.tracers.Tracer("example.com/program")
	var err error
	s.observe, err = openTelemetryObserver(meter, tracer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// metric returns the data of the metric with that name.
func (s *telemetry) metric(t *testing.T, name string) metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.Do(t, s.reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == name {
				return m.Data
			}
		}
	}
	t.Fatalf("no metric %s in %+v", name, all)
	return nil
}

// value returns an attribute as text; "" if it is missing.
func value(set attribute.Set, name attribute.Key) string {
	v, _ := set.Value(name)
	return v.String()
}

// TestOpenTelemetryMetrics reads the metrics of real decisions.
func TestOpenTelemetryMetrics(t *testing.T) {
	s := newTelemetry(t)
	synctest.Test(t, func(t *testing.T) { decideAlike(t, s.observe) })

	counts := map[string]int64{}
	denials := map[string]int64{}
	for _, point := range s.metric(t, "weir.decisions").(metricdata.Sum[int64]).DataPoints {
		word := value(point.Attributes, "weir.outcome")
		counts[value(point.Attributes, "weir.policy")+" "+word] += point.Value
		if word == "denied" {
			denials[value(point.Attributes, "weir.limit")] += point.Value
		}
		assertNoKey(t, point.Attributes.ToSlice())
	}
	var got []string
	for name, n := range counts {
		got = append(got, fmt.Sprint(name, " ", n))
	}
	slices.Sort(got)
	assert.Equal(t, strings.Join(got, "\n"), strings.Join(outcomes, "\n"), "weir.decisions")
	assert.Equal(t, fmt.Sprint(denials), "map[day:1 minute:3]", "denials by limit")

	duration := s.metric(t, "weir.decision.duration").(metricdata.Histogram[float64])
	for _, point := range duration.DataPoints {
		if value(point.Attributes, "weir.policy") == "push" {
			got := fmt.Sprintf("%d %.3f", point.Count, point.Sum)
			assert.Equal(t, got, "13 0.012", "calls and their seconds")
		}
	}
	assert.Equal(t, len(duration.DataPoints), 2, "policies with durations")
}

// TestOpenTelemetrySpans reads the spans of real decisions. Each is a child of the caller's
// span, and is as long as the decision.
func TestOpenTelemetrySpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelemetry(t)
		decideAlike(t, s.observe)
		var got []string
		for _, span := range s.spans.GetSpans() {
			set := attribute.NewSet(span.Attributes...)
			word := value(set, "weir.outcome")
			got = append(got, span.Name[len("weir "):]+" "+word)
			assert.Equal(t, value(set, "weir.limit") != "", word == "denied", "%s: it names a limit", word)
			failed := span.Status.Code == codes.Error
			assert.Equal(t, failed, word == "error", "%s: an error", word)
			took := time.Millisecond
			if word == "error" {
				took = 0 // the store was down
			}
			assert.Equal(t, span.EndTime.Sub(span.StartTime), took, "duration of %s", word)
			assert.Equal(t, span.EndTime.After(time.Now()), false, "%s ends in the future", word)
			assertNoKey(t, span.Attributes)
		}
		want := "push allowed, push replayed, push allowed, push denied, push denied, " +
			"push denied, push denied, push peeked, push peeked, push recorded, " +
			"push refunded, push reset, batch partial, push error"
		assert.Equal(t, strings.Join(got, ", "), want, "spans")
	})
}

// TestOpenTelemetrySpansHaveTheCallersParent: the context of the caller reaches the observer.
func TestOpenTelemetrySpansHaveTheCallersParent(t *testing.T) {
	s := newTelemetry(t)
	policy := weir.Policy{Name: "push", Limits: []weir.Limit{weir.PerMinute(2, "user")}}
	observed := weir.WithEngine(weir.Observe(weir.NewMemory(), s.observe))
	limiter, err := weir.New(policy, observed)
	if err != nil {
		t.Fatal(err)
	}
	ctx, request := s.tracers.Tracer("example.com/program").Start(context.Background(), "GET /push")
	if _, err := limiter.Allow(ctx, weir.K(someUser)); err != nil {
		t.Fatal(err)
	}
	request.End()
	decision := s.spans.GetSpans()[0]
	assert.Equal(t, decision.Name, "weir push", "the span that ended first")
	assert.Equal(t, decision.Parent.SpanID(), request.SpanContext().SpanID(), "its parent")
}

// assertNoKey fails the test if an attribute has the key of the decisions.
func assertNoKey(t *testing.T, all []attribute.KeyValue) {
	t.Helper()
	for _, a := range all {
		assert.Equal(t, strings.Contains(a.Value.String(), someUser), false, "a key in %s", a.Key)
	}
}
