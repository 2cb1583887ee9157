// Package metrics holds the metrics of GET /metrics, for Prometheus.
//
// Every series is known from configuration: its labels are names of policies, limits
// and rules, and fixed words. A key is never a label, and an unknown name in a request
// makes no series. So the number of series grows with the policy file only, and the series
// of a deleted policy end.
//
// The trade-off: counts belong to this process and begin at 0. The keys that are denied
// most are not in metrics; package topkeys holds them.
package metrics

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
)

// Metrics is a set of metrics. It is safe for concurrent use once all are added.
type Metrics struct {
	registry *prometheus.Registry
	took     [observe.Protocols]prometheus.Observer
}

// buckets are upper bounds in seconds. The first is 50 microseconds: nearly every
// decision in memory is below it, and Redis on the same network is not far above.
var buckets = []float64{
	50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5,
}

// New returns the metrics of a program of that version. inForce returns the counters
// to show; each scrape calls it.
func New(version string, inForce func() []*Counters) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "weir_decision_duration_seconds", Buckets: buckets,
		Help: "Time that the engine and the store took for a decision, errors included, by protocol.",
	}, []string{"protocol"})
	for f := range m.took {
		m.took[f] = took.WithLabelValues(observe.Protocol(f).String())
	}
	m.registry.MustRegister(took,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Gauge("weir_build_info", "The version of weir that runs.",
		Labels{"version": version, "goversion": runtime.Version()}, func() float64 { return 1 })
	m.addDecisions(inForce)
	return m
}

// Labels are fixed labels of one series.
type Labels = prometheus.Labels

// Counter adds a counter with the result of value. Counters of one name differ in the
// values of their labels.
func (m *Metrics) Counter(name, help string, labels Labels, value func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
		func() float64 { return float64(value()) }))
}

// Gauge adds a gauge with the result of value.
func (m *Metrics) Gauge(name, help string, labels Labels, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

// A Row is one series of a Table.
type Row struct {
	Labels []string // values, in the order of the table's labels
	N      int64
}

// Table adds counters with variable labels: each scrape calls rows, which yields them.
func (m *Metrics) Table(name, help string, labels []string, rows func(yield func(Row))) {
	m.registry.MustRegister(table{prometheus.NewDesc(name, help, labels, nil), rows})
}

type table struct {
	desc *prometheus.Desc
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
		to <- prometheus.MustNewConstMetric(t.desc, prometheus.CounterValue, float64(r.N), r.Labels...)
	}
}

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
}

// Counters counts the calls of one policy by outcome. Its counters are looked up once, when
// policies are loaded: a call costs one addition, a denial two.
type Counters struct {
	*Metrics
	name      string
	limits    []string
	denials   []*atomic.Int64 // by limit
	warnings  []*atomic.Int64 // by limit
	warns     []bool          // by limit: whether it has a share for warnings
	*outcomes                 // shared by the successive Counters of this name
}

// outcomes are the counters that do not depend on the limits.
type outcomes struct {
	calls    [observe.Protocols][observe.Outcomes]atomic.Int64
	degraded atomic.Int64
}

// Counters returns the counters of a policy with those limits. They continue those of
// before, which may be nil: limits of the same name keep their counts. warns reports for
// each limit whether it warns; nil = none does.
func (m *Metrics) Counters(name string, limits []string, warns []bool, before *Counters) *Counters {
	p := &Counters{Metrics: m, name: name, limits: limits, warns: warns}
	if before == nil {
		before = &Counters{outcomes: new(outcomes)}
	}
	p.outcomes = before.outcomes
	for _, limit := range limits {
		denials, warnings := new(atomic.Int64), new(atomic.Int64)
		if i := slices.Index(before.limits, limit); i >= 0 {
			denials, warnings = before.denials[i], before.warnings[i]
		}
		p.denials, p.warnings = append(p.denials, denials), append(p.warnings, warnings)
	}
	return p
}

// ObserveDuration observes the duration of a decision, or of a request for several.
func (m *Metrics) ObserveDuration(f observe.Protocol, d time.Duration) {
	m.took[f].Observe(d.Seconds())
}

// Count counts a call.
func (p *Counters) Count(c observe.Call) {
	p.calls[c.Protocol][c.Outcome].Add(1)
	if c.Degraded {
		p.degraded.Add(1)
	}
	if c.Outcome == observe.Denied {
		if i := slices.Index(p.limits, c.Limit); i >= 0 {
			p.denials[i].Add(1)
		}
	}
}

// Warned counts a grant with the warning of a limit.
func (p *Counters) Warned(limit string) {
	if i := slices.Index(p.limits, limit); i >= 0 {
		p.warnings[i].Add(1)
	}
}

// Calls returns how many calls had an outcome, over all protocols.
func (p *Counters) Calls(o observe.Outcome) (n int64) {
	for f := range p.calls {
		n += p.calls[f][o].Load()
	}
	return n
}

// addDecisions adds the counters of the policies in force.
func (m *Metrics) addDecisions(inForce func() []*Counters) {
	each := func(rows func(p *Counters, yield func(Row))) func(func(Row)) {
		return func(yield func(Row)) {
			for _, p := range inForce() {
				rows(p, yield)
			}
		}
	}
	m.Table("weir_decisions_total", "Calls for a policy by protocol and outcome; error means that no decision was possible.",
		[]string{"policy", "protocol", "outcome"}, each((*Counters).callRows))
	m.Table("weir_denials_total", "Denied attempts by the binding limit.", []string{"policy", "limit"},
		each(func(p *Counters, yield func(Row)) {
			for i, limit := range p.limits {
				yield(Row{[]string{p.name, limit}, p.denials[i].Load()})
			}
		}))
	m.Table("weir_warnings_total", "Grants with a warning: they brought the use of a limit with warn to its share or above.", []string{"policy", "limit"},
		each(func(p *Counters, yield func(Row)) {
			for i, warns := range p.warns {
				if warns {
					yield(Row{[]string{p.name, p.limits[i]}, p.warnings[i].Load()})
				}
			}
		}))
	m.Table("weir_degraded_decisions_total", "Decisions without the store, by when-store-is-down.", []string{"policy"},
		each(func(p *Counters, yield func(Row)) { yield(Row{[]string{p.name}, p.degraded.Load()}) }))
}

// callRows yields the calls. The usual outcomes are always present, so that a rate has a
// start. Other outcomes, and protocols without calls, appear with their first call: a file
// may hold thousands of policies.
func (p *Counters) callRows(yield func(Row)) {
	for f := range p.calls {
		var n [observe.Outcomes]int64
		used := observe.Protocol(f) == observe.HTTP
		for o := range n {
			n[o] = p.calls[f][o].Load()
			used = used || n[o] > 0
		}
		for o := range n {
			outcome := observe.Outcome(o)
			usual := outcome == observe.Allowed || outcome == observe.Denied || outcome == observe.Error
			if n[o] > 0 || used && usual {
				yield(Row{[]string{p.name, observe.Protocol(f).String(), outcome.String()}, n[o]})
			}
		}
	}
}
