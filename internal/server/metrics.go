package server

import (
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/metrics"
)

// sized is an engine that measures its histories, such as weir.Memory.
type sized interface {
	Len() int
	Bytes() int64
}

// capped is an engine that bounds its histories, such as weir.Memory.
type capped interface {
	Caps() (keys, bytes int64) // 0 = no bound
	Refused() int64
}

// sender is a tracer that counts its spans, such as otlp.Tracer.
type sender interface {
	Sent() int64
	Dropped() int64
}

// counters returns the counters of the policies in force.
func (s *Server) counters() []*metrics.Policy {
	policies := s.set().Policies
	all := make([]*metrics.Policy, len(policies))
	for i, p := range policies {
		all[i] = p.Counts
	}
	return all
}

// addMetrics adds the metrics of the server, besides those of decisions. New calls it
// last: parts that are not configured have no series.
func (s *Server) addMetrics() {
	s.addRequestMetrics()
	s.addReloadMetrics()
	s.addStoreMetrics()
	s.addListenerMetrics()
	if s.rpc != nil || s.config.Envoy != nil {
		s.addEnvoyMetrics()
	}
}

func (s *Server) addRequestMetrics() {
	m := s.metrics
	const bad, help = "weir_bad_requests_total", "Requests rejected as bad input, also those with an unknown policy; gates count as http."
	m.Counter(bad, help, metrics.Labels{"protocol": "http"}, s.api.BadRequests)
	m.Counter(bad, help, metrics.Labels{"protocol": "grpc"}, func() int64 { return s.envoy.Stats().BadInputs })
	if s.resp != nil {
		m.Counter(bad, help, metrics.Labels{"protocol": "resp"}, func() int64 { return s.resp.server.Stats().Refused })
	}
	m.Counter("weir_unauthorized_requests_total", "Requests without the token, secret or certificate that they need.", nil, func() int64 {
		n := s.api.Unauthorized()
		if s.resp != nil {
			n += s.resp.server.Stats().Unauthorized
		}
		return n
	})
	m.Counter("weir_shed_requests_total", "Requests rejected at once with 503: too many in flight, too many long bodies, or too many connections.", nil,
		func() int64 { return s.capacity.Rejected() + s.api.Bodies.Rejected() })
	m.Gauge("weir_requests_in_flight", "Requests that wait for a decision now.", nil, func() float64 { return float64(s.capacity.InFlight()) })
	if t, ok := s.config.Tracer.(sender); ok {
		const name, help = "weir_trace_spans_total", "Spans of decisions: sent to the collector, or dropped because it is unavailable or too slow."
		m.Counter(name, help, metrics.Labels{"outcome": "sent"}, t.Sent)
		m.Counter(name, help, metrics.Labels{"outcome": "dropped"}, t.Dropped)
	}
	m.Gauge("weir_ready", "1 while /readyz answers 200, 0 while the server drains.", nil, func() float64 { return gauge(!s.draining.Load()) })
}

// addReloadMetrics adds the generation of the policies and the result of the last reload,
// for alerts.
func (s *Server) addReloadMetrics() {
	m := s.metrics
	const reloads, help = "weir_reloads_total", "Reloads of the policies; after an error the older ones stay."
	m.Gauge("weir_policies_generation", "Number of the policies in force: 1 at the start, one more with each reload.", nil, func() float64 { return float64(s.Generation()) })
	m.Counter(reloads, help, metrics.Labels{"outcome": "ok"}, func() int64 { return s.reloads.Load().done })
	m.Counter(reloads, help, metrics.Labels{"outcome": "error"}, func() int64 { return s.reloads.Load().failed })
	m.Gauge("weir_config_last_reload_successful", "1 if the last reload succeeded or none was attempted, 0 if it failed and older policies than wanted are in force.", nil,
		func() float64 { return gauge(s.reloads.Load().err == nil) })
	m.Gauge("weir_config_last_reload_success_timestamp_seconds", "Instant of the last successful reload, or of the start, in seconds since 1970.", nil,
		func() float64 { return float64(s.reloads.Load().succeeded.UnixMilli()) / 1000 })
}

func (s *Server) addStoreMetrics() {
	m := s.metrics
	if e, ok := s.config.Engine.(sized); ok {
		m.Gauge("weir_store_keys", "Histories held in memory: keys, counted once for each limit.", nil, func() float64 { return float64(e.Len()) })
		m.Gauge("weir_store_bytes", "Bytes that the histories in memory take.", nil, func() float64 { return float64(e.Bytes()) })
	}
	if e, ok := s.config.Engine.(capped); ok {
		s.addCapMetrics(e)
	}
	f, ok := s.config.Engine.(*fallback.Engine)
	if !ok {
		return
	}
	m.Gauge("weir_store_up", "1 while no failure of the store is known, 0 while it is down.", nil, func() float64 { return gauge(s.storeDown() == nil) })
	m.Gauge("weir_store_breaker_open", "1 while the store is not called after several failures in a row, except for probes.", nil,
		func() float64 { return gauge(f.Status().State == fallback.StoreDown) })
	m.Counter("weir_store_failures_total", "Calls that the store did not decide.", nil, func() int64 { return f.Status().Failures })
	m.Counter("weir_store_timeouts_total", "Of these, calls without an answer in time.", nil, func() int64 { return f.Status().Timeouts })
}

// addCapMetrics adds the bound of memory, if there is one, and its rejections.
func (s *Server) addCapMetrics(e capped) {
	m := s.metrics
	keys, bytes := e.Caps()
	if bytes > 0 {
		m.Gauge("weir_store_max_bytes", "The bound of the bytes of histories in memory, by --max-memory.", nil, func() float64 { return float64(bytes) })
	}
	if keys > 0 || bytes > 0 {
		m.Counter("weir_store_full_total", "Attempts and records that were rejected because the bound of memory was reached and every history still counted.", nil, e.Refused)
	}
}

func (s *Server) addListenerMetrics() {
	m := s.metrics
	add := func(name string, of **listen.Listener) {
		labels := metrics.Labels{"listener": name}
		m.Gauge("weir_connections", "Open connections by listener; main is that of --listen.", labels, func() float64 {
			if *of == nil {
				return 0
			}
			return float64((*of).Conns())
		})
		m.Counter("weir_closed_connections_total",
			"Connections closed because their address had too many, they did not authenticate in time, or newer ones needed the slot.",
			labels, func() int64 {
				if *of == nil {
					return 0
				}
				return (*of).Refused()
			})
	}
	add("main", &s.main.socket)
	if s.admin != nil {
		add("admin", &s.admin.socket)
	}
	if s.rpc != nil {
		add("grpc", &s.rpc.listener)
	}
	if s.resp == nil {
		return
	}
	add("resp", &s.resp.socket)
	const name, help = "weir_throttle_total", "Answers to CL.THROTTLE; error means that no decision was possible."
	m.Counter(name, help, metrics.Labels{"outcome": "allowed"}, func() int64 { return s.resp.server.Stats().ThrottleAllowed })
	m.Counter(name, help, metrics.Labels{"outcome": "denied"}, func() int64 { return s.resp.server.Stats().ThrottleLimited })
	m.Counter(name, help, metrics.Labels{"outcome": "error"}, func() int64 { return s.resp.server.Stats().NoThrottle })
}

func (s *Server) addEnvoyMetrics() {
	m := s.metrics
	const reloads, help = "weir_envoy_reloads_total", "Reloads of the Envoy configuration; after an error the older one stays."
	m.Counter(reloads, help, metrics.Labels{"outcome": "ok"}, s.envoyReloads.Load)
	m.Counter(reloads, help, metrics.Labels{"outcome": "error"}, s.envoyErrors.Load)
	m.Gauge("weir_envoy_config_last_reload_successful", "1 if the last reload succeeded or none was attempted, 0 if it failed and an older configuration than wanted is in force.", nil,
		func() float64 { return gauge(!s.envoyFailed.Load()) })
	for outcome, of := range map[string]func(envoy.Stats) int64{
		"ok":        func(n envoy.Stats) int64 { return n.OK },
		"denied":    func(n envoy.Stats) int64 { return n.Over },
		"error":     func(n envoy.Stats) int64 { return n.Failed },
		"bad_input": func(n envoy.Stats) int64 { return n.BadInputs },
	} {
		m.Counter("weir_envoy_requests_total", "Requests to the rate limit service by outcome; error means that no decision was possible.",
			metrics.Labels{"outcome": outcome}, func() int64 { return of(s.envoy.Stats()) })
	}
	m.Counter("weir_envoy_unknown_domains_total", "Requests for a domain that is neither configured nor a policy; they are answered OK.", nil,
		func() int64 { return s.envoy.Stats().UnknownDomains })
	m.Counter("weir_envoy_unrefunded_hits_total", "Hits of denied requests that stay charged because the store was unavailable for their refund.", nil,
		func() int64 { return s.envoy.Stats().Kept })
	m.Table("weir_envoy_hits_total", "Hits by the deciding rule; shadowed ones were above the limit of a rule in shadow_mode.",
		[]string{"domain", "rule", "outcome"}, s.envoyHits)
	m.Table("weir_envoy_near_limit_hits_total", "Granted hits that took a rule above four fifths of its limit.",
		[]string{"domain", "rule"}, func(yield func(metrics.Row)) {
			s.envoy.EachRule(func(h envoy.Hits) { yield(metrics.Row{Labels: []string{h.Domain, h.Rule}, N: h.Near}) })
		})
}

// envoyHits yields the hits of every rule.
func (s *Server) envoyHits(yield func(metrics.Row)) {
	s.envoy.EachRule(func(h envoy.Hits) {
		for _, each := range []struct {
			outcome string
			n       int64
		}{{"granted", h.Granted}, {"denied", h.Denied}, {"shadowed", h.Shadowed}, {"refunded", h.Refunded}} {
			yield(metrics.Row{Labels: []string{h.Domain, h.Rule, each.outcome}, N: each.n})
		}
	})
}

// gauge returns 1 for true.
func gauge(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
