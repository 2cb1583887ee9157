package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/engine"
)

// prometheusObserver registers three metrics and returns the observer that updates them. Labels
// are names of policies and limits, and outcomes. A key is never a label, because each value
// of a label is a series that Prometheus keeps.
func prometheusObserver(to prometheus.Registerer) (observer, error) {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_decisions_total",
		Help: "Calls for a policy by outcome; error means that no decision was possible.",
	}, []string{"policy", "outcome"})
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_denials_total",
		Help: "Denied attempts by the binding limit.",
	}, []string{"policy", "limit"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "weir_decision_duration_seconds",
		Help:    "Duration of decisions in the engine, including errors.",
		Buckets: []float64{.000_001, .000_01, .000_1, .001, .01, .1, 1},
	}, []string{"policy"})

	observe := func(_ context.Context, c *engine.Call, took time.Duration) {
		policy, word := c.Rules.Name, outcome(c)
		decisions.WithLabelValues(policy, word).Inc()
		if word == "denied" {
			denials.WithLabelValues(policy, c.Result.Limit).Inc()
		}
		duration.WithLabelValues(policy).Observe(took.Seconds())
	}
	err := errors.Join(to.Register(decisions), to.Register(denials), to.Register(duration))
	return observe, err
}
