package server

import (
	"sync/atomic"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/engine"
)

// sender is a tracer that counts its spans, as otlp.Tracer does.
type sender interface {
	Made() int64
	Sent() int64
}

// addMetrics adds the metrics of the server, except those of decisions. New calls it last,
// because parts that are not configured have no series.
func (s *Server) addMetrics() {
	s.addRequestMetrics()
	s.addPolicyMetrics()
	s.addStoreMetrics()
	s.addListenerMetrics()
	if s.rpc != nil || s.config.Envoy != nil {
		s.addEnvoyMetrics()
	}
}

func (s *Server) addRequestMetrics() {
	m := s.metrics
	const bad = "weir_bad_requests_total"
	const help = "Requests rejected as bad input, also those with an unknown policy; " +
		"gates count as http."
	m.Counter(bad, help, metrics.Labels{"protocol": "http"}, s.api.BadRequests.Load)
	m.Counter(bad, help, metrics.Labels{"protocol": "grpc"}, s.envoy.Counts.BadInputs.Load)
	if s.resp != nil {
		m.Counter(bad, help, metrics.Labels{"protocol": "resp"}, s.resp.Rejected.Load)
	}
	m.Counter("weir_unauthorized_requests_total",
		"Requests without the token, secret or certificate that they need.", nil, func() int64 {
			n := s.api.Unauthorized.Load()
			if s.resp != nil {
				n += s.resp.Unauthorized.Load()
			}
			return n
		})
	m.Counter("weir_shed_requests_total",
		"Requests rejected at once with 503: too many in flight, too many long bodies, "+
			"or too many connections.",
		nil,
		func() int64 { return s.capacity.Rejected.Load() + s.api.Bodies.Rejected.Load() })
	m.Gauge("weir_requests_in_flight", "Requests that wait for a decision now.", nil,
		func() float64 { return float64(s.capacity.InFlight.Load()) })
	if t, ok := s.config.Tracer.(sender); ok {
		const name = "weir_trace_spans_total"
		const help = "Sampled spans of decisions: all that were made, " +
			"and those that the collector accepted."
		m.Counter(name, help, metrics.Labels{"outcome": "made"}, t.Made)
		m.Counter(name, help, metrics.Labels{"outcome": "sent"}, t.Sent)
	}
	if r := s.config.Recorder; r != nil {
		const name = "weir_recorded_calls_total"
		const help = "Calls of sampled keys for the trace of --record: written, " +
			"dropped because the buffer was full, or failed because the file cannot be written."
		m.Counter(name, help, metrics.Labels{"outcome": "written"}, r.Written.Load)
		m.Counter(name, help, metrics.Labels{"outcome": "dropped"}, r.Dropped.Load)
		m.Counter(name, help, metrics.Labels{"outcome": "failed"}, r.Failed.Load)
	}
	m.Gauge("weir_ready", "1 while /readyz answers 200, 0 while the server drains.", nil,
		func() float64 { return gauge(!s.api.Draining.Load()) })
}

// addReloadMetrics adds the number of reloads of a file, and the result of the last one.
func (s *Server) addReloadMetrics(prefix, help, helpLast string, of *atomic.Pointer[reloads]) {
	m := s.metrics
	m.Counter(prefix+"reloads_total", help, metrics.Labels{"outcome": "ok"},
		func() int64 { return of.Load().done })
	m.Counter(prefix+"reloads_total", help, metrics.Labels{"outcome": "error"},
		func() int64 { return of.Load().failed })
	m.Gauge(prefix+"config_last_reload_successful", helpLast, nil,
		func() float64 { return gauge(of.Load().err == nil) })
}

func (s *Server) addPolicyMetrics() {
	m := s.metrics
	s.addReloadMetrics("weir_", "Reloads of the policies; after an error the older ones stay.",
		"1 if the last reload succeeded or none was attempted, "+
			"0 if it failed and older policies than wanted are in force.", &s.reloads)
	m.Gauge("weir_policies_generation",
		"Number of the policies in force: 1 at the start, one more with each reload.", nil,
		func() float64 { return float64(s.Generation()) })
	if s.inline != nil {
		m.Gauge("weir_inline_policies",
			"Policies that calls have carried (--inline-policies), at most 1000; "+
				"each has its row in the metrics of policies.",
			nil,
			func() float64 { return float64(s.inline.Len()) })
	}
	m.Gauges("weir_overrides",
		"Overrides of the store in force (/v1/overrides), without those of the policy file.",
		[]string{"policy"}, func(yield func(metrics.Row)) {
			for policy, n := range s.overrides.InForce() {
				yield(metrics.Row{Labels: []string{policy}, N: n})
			}
		})
	m.Gauge("weir_config_last_reload_success_timestamp_seconds",
		"Instant of the last successful reload, or of the start, in seconds since 1970.", nil,
		func() float64 { return float64(s.reloads.Load().succeeded.UnixMilli()) / 1000 })
}

func (s *Server) addStoreMetrics() {
	m := s.metrics
	if e := s.config.Memory; e != nil {
		s.addMemoryMetrics(e.Stats)
	}
	if e := s.config.Disk; e != nil {
		s.addMemoryMetrics(func() engine.MemoryStats { return e.Stats().Memory })
		m.Gauge("weir_disk_bytes", "Bytes of the log in the directory of --store file:.", nil,
			func() float64 { return float64(e.Stats().Bytes) })
		m.Counter("weir_disk_writes_total",
			"Writes to the log. Each has the changes of several callers, if these come fast.", nil,
			func() int64 { return e.Stats().Batches })
		m.Counter("weir_disk_syncs_total", "Syncs of the log.", nil,
			func() int64 { return e.Stats().Syncs })
		m.Counter("weir_disk_snapshots_total",
			"Snapshots, after which older parts of the log are deleted.", nil,
			func() int64 { return e.Stats().Snapshots })
		m.Counter("weir_disk_failures_total", "Writes, syncs and snapshots that failed.", nil,
			func() int64 { return e.Stats().Failures })
	}
	f := s.config.Fallback
	if f == nil {
		return
	}
	m.Gauge("weir_store_up", "1 while no failure of the store is known, 0 while it is down.", nil,
		func() float64 { return gauge(s.storeDown() == nil) })
	m.Gauge("weir_store_breaker_open",
		"1 while the store is not called after several failures in a row, except for probes.", nil,
		func() float64 { return gauge(f.Status().Cause != nil) })
	m.Counter("weir_store_failures_total", "Calls that the store did not decide.", nil,
		func() int64 { return f.Status().Failures })
	m.Counter("weir_store_timeouts_total", "Of these, calls without an answer in time.", nil,
		func() int64 { return f.Status().Timeouts })
}

// addMemoryMetrics adds the memory in use. If it has a bound, it adds the bound and the
// rejections.
func (s *Server) addMemoryMetrics(now func() engine.MemoryStats) {
	m := s.metrics
	m.Gauge("weir_store_keys", "Histories held in memory: keys, counted once for each limit.", nil,
		func() float64 { return float64(now().Keys) })
	m.Gauge("weir_store_bytes", "Bytes that the histories in memory take.", nil,
		func() float64 { return float64(now().Bytes) })
	caps := now()
	if caps.MaxBytes > 0 {
		m.Gauge("weir_store_max_bytes",
			"The bound of the bytes of histories in memory, by --max-memory.", nil,
			func() float64 { return float64(caps.MaxBytes) })
	}
	if caps.MaxKeys > 0 || caps.MaxBytes > 0 {
		m.Counter("weir_store_full_total",
			"Attempts and records that were rejected because the bound of memory was reached "+
				"and every history still counted.",
			nil, func() int64 { return now().Rejected })
	}
}

func openConns(l *listen.Listener) int64 { return int64(l.Conns()) }

func (s *Server) addListenerMetrics() {
	m := s.metrics
	for _, p := range s.ports {
		of := func(value func(*listen.Listener) int64) int64 {
			if p.socket == nil { // before Listen
				return 0
			}
			return value(p.socket)
		}
		labels := metrics.Labels{"listener": listenerNames[p.flag]}
		m.Gauge("weir_connections", "Open connections by listener; main is that of --listen.",
			labels,
			func() float64 { return float64(of(openConns)) })
		m.Counter("weir_closed_connections_total",
			"Connections closed because their address had too many, "+
				"they did not authenticate in time, they sent too much before, "+
				"or newer ones needed the slot.",
			labels, func() int64 { return of((*listen.Listener).Refused) })
	}
}

func (s *Server) addEnvoyMetrics() {
	m := s.metrics
	s.addReloadMetrics("weir_envoy_",
		"Reloads of the Envoy configuration; after an error the older one stays.",
		"1 if the last reload succeeded or none was attempted, 0 if it failed and an older "+
			"configuration than wanted is in force.", &s.envoyReloads)
	n := &s.envoy.Counts
	const requests = "weir_envoy_requests_total"
	const help = "Requests to the rate limit service by outcome; " +
		"error means that no decision was possible."
	m.Counter(requests, help, metrics.Labels{"outcome": "ok"}, n.OK.Load)
	m.Counter(requests, help, metrics.Labels{"outcome": "denied"}, n.Over.Load)
	m.Counter(requests, help, metrics.Labels{"outcome": "error"}, n.Failed.Load)
	m.Counter(requests, help, metrics.Labels{"outcome": "bad_input"}, n.BadInputs.Load)
	m.Counter("weir_envoy_unknown_domains_total",
		"Requests for a domain that is neither configured nor a policy; they are answered OK.",
		nil, n.UnknownDomains.Load)
	m.Counter("weir_envoy_unrefunded_hits_total",
		"Hits of denied or failed requests that stay charged: the store failed between two "+
			"steps, or a concurrent request took the last quota.",
		nil, n.Kept.Load)
	m.Table("weir_envoy_hits_total",
		"Hits by the deciding rule; shadowed ones were above the limit of a rule in shadow_mode.",
		[]string{"domain", "rule", "outcome"}, s.envoyHits)
	m.Table("weir_envoy_near_limit_hits_total",
		"Granted hits that took a rule above four fifths of its limit.",
		[]string{"domain", "rule"}, func(yield func(metrics.Row)) {
			s.envoy.EachRule(func(domain, rule string, h *envoy.Hits) {
				yield(metrics.Row{Labels: []string{domain, rule}, N: h.Near.Load()})
			})
		})
}

// envoyHits yields the hits of every rule.
func (s *Server) envoyHits(yield func(metrics.Row)) {
	s.envoy.EachRule(func(domain, rule string, h *envoy.Hits) {
		row := func(outcome string, n *atomic.Int64) {
			yield(metrics.Row{Labels: []string{domain, rule, outcome}, N: n.Load()})
		}
		row("granted", &h.Granted)
		row("denied", &h.Denied)
		row("shadowed", &h.Shadowed)
		row("refunded", &h.Refunded)
	})
}

// gauge returns 1 for true and 0 for false.
func gauge(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
