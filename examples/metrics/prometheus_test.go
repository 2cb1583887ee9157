package main

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

// scrape returns the page that Prometheus reads.
func scrape(registry *prometheus.Registry) string {
	page := httptest.NewRecorder()
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	handler.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	return page.Body.String()
}

// TestPrometheusObserver reads the metrics of real decisions from a registry.
func TestPrometheusObserver(t *testing.T) {
	registry := prometheus.NewRegistry()
	observe, err := prometheusObserver(registry)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { decideAlike(t, observe) })
	page := scrape(registry)

	var got []string
	sample := regexp.MustCompile(`(?m)^weir_decisions_total\{outcome="(.*)",policy="(.*)"\} (\d+)$`)
	for _, m := range sample.FindAllStringSubmatch(page, -1) {
		got = append(got, m[2]+" "+m[1]+" "+m[3])
	}
	slices.Sort(got)
	assert.Equal(t, strings.Join(got, "\n"), strings.Join(outcomes, "\n"), "weir_decisions_total")

	for _, want := range []string{
		`weir_denials_total{limit="day",policy="push"} 1`,
		`weir_denials_total{limit="minute",policy="push"} 3`,
		`weir_decision_duration_seconds_bucket{policy="push",le="0.0001"} 1`, // the store was down
		`weir_decision_duration_seconds_bucket{policy="push",le="0.001"} 13`,
		`weir_decision_duration_seconds_count{policy="push"} 13`,
	} {
		assert.Equal(t, strings.Contains(page, want+"\n"), true, "%s in\n%s", want, page)
	}
	assert.Equal(t, strings.Contains(page, someUser), false, "a key in the metrics")
}

// TestPrometheusObserverTwice: a registry rejects a second observer with an error.
func TestPrometheusObserverTwice(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := prometheusObserver(registry); err != nil {
		t.Fatal(err)
	}
	_, err := prometheusObserver(registry)
	assert.Error(t, err, nil, "duplicate")
}
