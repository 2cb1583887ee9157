// Package metrics holds the metrics of GET /metrics, for Prometheus.
//
// Every series is known from configuration: its labels are names of policies, limits
// and rules, and fixed words. A key is never a label, and an unknown name in a request
// makes no series. So the number of series grows with the policy file only, and the series
// of a deleted policy end.
//
// The trade-off: counts belong to this process and begin at 0. The keys that are denied
// most are not in metrics; package topkeys holds them. Package calls counts decisions.
package metrics

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
)

// Metrics is a set of metrics. It is safe for concurrent use once all are added.
type Metrics struct {
	// Took observes the seconds of a decision, or of a request for several.
	Took [observe.Protocols]prometheus.Observer

	registry *prometheus.Registry
}

// buckets are upper bounds in seconds. The first is 50 microseconds: nearly every
// decision in memory is below it, and Redis on the same network is not far above.
var buckets = [...]float64{
	50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3,
	1, 2.5,
}

// Durations counts decisions by their duration: element i has those of at most buckets[i], the
// last one has all.
type Durations [len(buckets) + 1]int64

// Durations returns the durations since the start, over all protocols.
func (m *Metrics) Durations() (all Durations) {
	for _, took := range m.Took {
		var read dto.Metric
		if took.(prometheus.Metric).Write(&read) != nil {
			continue // a histogram has no error
		}
		h := read.GetHistogram()
		for i, b := range h.GetBucket() {
			all[i] += int64(b.GetCumulativeCount())
		}
		all[len(buckets)] += int64(h.GetSampleCount())
	}
	return all
}

// Since returns the durations without those before.
func (d Durations) Since(before *Durations) Durations {
	for i := range d {
		d[i] -= before[i]
	}
	return d
}

// Count returns the number of decisions.
func (d *Durations) Count() int64 { return d[len(buckets)] }

// Within returns the bound in seconds of the first bucket that has a share of the decisions, such
// as 0.99; 0 without decisions, and -1 above the greatest bound.
func (d *Durations) Within(share float64) float64 {
	if d.Count() == 0 {
		return 0
	}
	for i, bound := range buckets {
		if float64(d[i]) >= share*float64(d.Count()) {
			return bound
		}
	}
	return -1
}

// New returns the metrics of a program of that version, without decisions.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "weir_decision_duration_seconds",
		Help:    "Time that the engine and the store took for a decision, errors included, by protocol.",
		Buckets: buckets[:],
	}, []string{"protocol"})
	for f := range m.Took {
		m.Took[f] = took.WithLabelValues(observe.Protocol(f).String())
	}
	m.registry.MustRegister(took,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Gauge("weir_build_info", "The version of weir that runs.",
		Labels{"version": version, "goversion": runtime.Version()}, func() float64 { return 1 })
	return m
}

// Labels are fixed labels of one series.
type Labels = prometheus.Labels

// Counter adds a counter with the result of value. Counters of one name differ in the
// values of their labels.
func (m *Metrics) Counter(name, help string, labels Labels, value func() int64) {
	about := prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}
	number := func() float64 { return float64(value()) }
	m.registry.MustRegister(prometheus.NewCounterFunc(about, number))
}

// Gauge adds a gauge with the result of value.
func (m *Metrics) Gauge(name, help string, labels Labels, value func() float64) {
	about := prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}
	m.registry.MustRegister(prometheus.NewGaugeFunc(about, value))
}

// A Row is one series of a Table.
type Row struct {
	Labels []string // values, in the order of the table's labels
	N      int64
}

// Table adds counters with variable labels: each scrape calls rows, which yields them.
func (m *Metrics) Table(name, help string, labels []string, rows func(yield func(Row))) {
	about := prometheus.NewDesc(name, help, labels, nil)
	m.registry.MustRegister(table{about, prometheus.CounterValue, rows})
}

// Gauges is Table for gauges.
func (m *Metrics) Gauges(name, help string, labels []string, rows func(yield func(Row))) {
	about := prometheus.NewDesc(name, help, labels, nil)
	m.registry.MustRegister(table{about, prometheus.GaugeValue, rows})
}

type table struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	rows func(yield func(Row))
}

// Describe sends the description.
func (t table) Describe(to chan<- *prometheus.Desc) { to <- t.desc }

// Collect reads the rows. It adds up rows with the same labels: a repeated series would
// make the whole answer invalid.
func (t table) Collect(to chan<- prometheus.Metric) {
	sums := map[string]*Row{}
	t.rows(func(r Row) {
		for i := range r.Labels {
			r.Labels[i] = strings.ToValidUTF8(r.Labels[i], "\uFFFD")
		}
		id := strings.Join(r.Labels, "\xff")
		if same := sums[id]; same != nil {
			same.N += r.N
			return
		}
		sums[id] = &r
	})
	for _, r := range sums {
		to <- prometheus.MustNewConstMetric(t.desc, t.kind, float64(r.N), r.Labels...)
	}
}

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
}
