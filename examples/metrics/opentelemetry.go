package main

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirlimit/weir/engine"
)

// openTelemetryObserver returns an observer that counts calls, measures their durations and
// makes a span of each, as a child of the span in the caller's context. Attributes are names
// of policies and limits, and outcomes, never a key. The text of an error may contain a key, so
// a span has only the status.
func openTelemetryObserver(meter metric.Meter, tracer trace.Tracer) (observer, error) {
	decisions, err := meter.Int64Counter("weir.decisions", metric.WithUnit("{call}"),
		metric.WithDescription("Calls for a policy by outcome and, if denied, by limit."))
	duration, err2 := meter.Float64Histogram("weir.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of decisions in the engine, including errors."),
		metric.WithExplicitBucketBoundaries(.000_001, .000_01, .000_1, .001, .01, .1, 1))

	observe := func(ctx context.Context, c *engine.Call, took time.Duration) {
		policy := attribute.String("weir.policy", c.Rules.Name)
		all := []attribute.KeyValue{policy, attribute.String("weir.outcome", outcome(c))}
		if outcome(c) == "denied" {
			all = append(all, attribute.String("weir.limit", c.Result.Limit))
		}
		decisions.Add(ctx, 1, metric.WithAttributes(all...))
		duration.Record(ctx, took.Seconds(), metric.WithAttributes(policy))

		end := time.Now() // the call has just ended
		_, span := tracer.Start(ctx, "weir "+c.Rules.Name,
			trace.WithTimestamp(end.Add(-took)), trace.WithAttributes(all...))
		if c.Err != nil {
			span.SetStatus(codes.Error, "no decision")
		}
		span.End(trace.WithTimestamp(end))
	}
	return observe, errors.Join(err, err2)
}
