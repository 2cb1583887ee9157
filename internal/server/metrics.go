package server

import (
	"net/http"
	"runtime"
	"strconv"

	"github.com/weirlimit/weir"
)

// sized is an engine that knows how much it holds, as weir.Memory does.
type sized interface {
	Len() int
	Bytes() int64
}

// serveMetrics writes the counters in the text format of Prometheus. The labels
// are names of policies and fixed words, never a key: their number is bounded by
// the policy file and the Envoy configuration, whose detailed_metric is an exception.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	b := appendHelp(nil, "weir_build_info", "gauge", "The version of weir that runs.")
	b = append(b, "weir_build_info{version="...)
	b = strconv.AppendQuote(b, s.config.Version)
	b = append(b, ",goversion="...)
	b = strconv.AppendQuote(b, runtime.Version())
	b = append(b, "} 1\n"...)

	b = appendHelp(b, "weir_decisions_total", "counter", "Attempts and records by what became of them; would_deny passed because its policy is a shadow, error means that no decision could be made.")
	for _, e := range s.serving.Load().entries {
		b = appendOutcome(b, e.Name, "allowed", e.allowed.Load())
		b = appendOutcome(b, e.Name, "denied", e.denied.Load())
		b = appendOutcome(b, e.Name, "recorded", e.recorded.Load())
		b = appendOutcome(b, e.Name, "error", e.failed.Load())
		if e.Shadow {
			b = appendOutcome(b, e.Name, "would_deny", e.wouldDeny.Load())
		}
	}

	b = appendHelp(b, "weir_bad_requests_total", "counter", "Requests for decisions that were refused as bad input.")
	b = appendNumber(b, "weir_bad_requests_total", s.refused())
	b = appendHelp(b, "weir_unauthorized_requests_total", "counter", "Requests that did not show the token, secret or certificate they must.")
	b = appendNumber(b, "weir_unauthorized_requests_total", s.strangers.Load())
	b = appendHelp(b, "weir_shed_requests_total", "counter", "Requests answered with 503 at once, since as many as may be were waiting for the store.")
	b = appendNumber(b, "weir_shed_requests_total", s.room.shed.Load())
	if s.resp != nil {
		b = s.appendRESP(b, s.resp.server.Stats())
	}

	b = s.appendReloads(b)
	if e, ok := s.config.Engine.(*weir.FallbackEngine); ok {
		b = s.appendOutages(b, e.Status())
	}

	if e, ok := s.config.Engine.(sized); ok {
		b = appendHelp(b, "weir_store_keys", "gauge", "Histories held: keys, counted once for each limit.")
		b = appendNumber(b, "weir_store_keys", int64(e.Len()))
		b = appendHelp(b, "weir_store_bytes", "gauge", "Bytes that the histories take.")
		b = appendNumber(b, "weir_store_bytes", e.Bytes())
	}

	b = s.envoy.AppendMetrics(b)
	b = s.appendEnvoyReloads(b)
	write(w, http.StatusOK, textType, b)
}

// appendReloads appends which policies are in force, and whether the last attempt
// to put others in force failed: what to alert on.
func (s *Server) appendReloads(b []byte) []byte {
	r := s.reloads.Load()
	b = appendHelp(b, "weir_policies_generation", "gauge", "Sets of policies that were in force, the present one included.")
	b = appendNumber(b, "weir_policies_generation", s.Generation())
	b = appendHelp(b, "weir_reloads_total", "counter", "Attempts to put other policies in force; after an error those before stay.")
	b = appendNumber(b, `weir_reloads_total{outcome="ok"}`, r.done)
	b = appendNumber(b, `weir_reloads_total{outcome="error"}`, r.failed)
	b = appendHelp(b, "weir_last_reload_failed", "gauge", "1 if the last attempt failed, so that older policies than wanted are in force.")
	failed := int64(0)
	if r.err != nil {
		failed = 1
	}
	return appendNumber(b, "weir_last_reload_failed", failed)
}

func appendHelp(b []byte, name, kind, help string) []byte {
	b = append(b, "# HELP "+name+" "+help+"\n"...)
	return append(b, "# TYPE "+name+" "+kind+"\n"...)
}

// appendOutcome appends one counter. Names of policies need no escaping.
func appendOutcome(b []byte, policy, outcome string, n int64) []byte {
	return appendNumber(b, `weir_decisions_total{policy="`+policy+`",outcome="`+outcome+`"}`, n)
}

func appendNumber(b []byte, series string, n int64) []byte {
	b = strconv.AppendInt(append(append(b, series...), ' '), n, 10)
	return append(b, '\n')
}
