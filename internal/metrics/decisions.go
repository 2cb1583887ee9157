package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/internal/observe"
)

// decisions collects the counters of the policies in force.
type decisions struct {
	inForce func() []*Policy
}

var (
	callsDesc = prometheus.NewDesc("weir_decisions_total",
		"Calls for a policy by protocol and outcome; error means that no decision was possible.",
		[]string{"policy", "protocol", "outcome"}, nil)
	denialsDesc = prometheus.NewDesc("weir_denials_total",
		"Denied attempts by the binding limit.", []string{"policy", "limit"}, nil)
	degradedDesc = prometheus.NewDesc("weir_degraded_decisions_total",
		"Decisions without the store, by when-store-is-down.", []string{"policy"}, nil)
)

// Describe sends the descriptions.
func (d decisions) Describe(to chan<- *prometheus.Desc) {
	to <- callsDesc
	to <- denialsDesc
	to <- degradedDesc
}

// Collect reads the counters.
func (d decisions) Collect(to chan<- prometheus.Metric) {
	for _, p := range d.inForce() {
		for f := range p.calls {
			p.collect(to, observe.Protocol(f))
		}
		for i, limit := range p.limits {
			to <- counter(denialsDesc, p.denials[i].Load(), p.name, limit)
		}
		to <- counter(degradedDesc, p.degraded.Load(), p.name)
	}
}

// collect sends the counters of one protocol. The usual outcomes are always present, so
// that a rate has a start. Other outcomes, and protocols without calls, appear with their
// first call: a file may hold thousands of policies.
func (p *Policy) collect(to chan<- prometheus.Metric, f observe.Protocol) {
	var n [observe.Outcomes]int64
	used := f == observe.HTTP
	for o := range n {
		n[o] = p.calls[f][o].Load()
		used = used || n[o] > 0
	}
	for o := range n {
		if n[o] > 0 || used && isUsual(observe.Outcome(o)) {
			to <- counter(callsDesc, n[o], p.name, f.String(), observe.Outcome(o).String())
		}
	}
}

func isUsual(o observe.Outcome) bool {
	return o == observe.Allowed || o == observe.Denied || o == observe.Error
}

func counter(d *prometheus.Desc, n int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
