package server

import (
	"net/http"
	"runtime"
	"strconv"
)

// serveMetrics writes the counters in the text format of Prometheus. The labels
// are names of policies and fixed words, never a key: their number is bounded by
// the policy file.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	b := appendHelp(nil, "weir_build_info", "gauge", "The version of weir that runs.")
	b = append(b, "weir_build_info{version="...)
	b = strconv.AppendQuote(b, s.config.Version)
	b = append(b, ",goversion="...)
	b = strconv.AppendQuote(b, runtime.Version())
	b = append(b, "} 1\n"...)

	b = appendHelp(b, "weir_decisions_total", "counter", "Attempts and records by what became of them; error means that no decision could be made.")
	for _, e := range s.entries {
		b = appendOutcome(b, e.Name, "allowed", e.allowed.Load())
		b = appendOutcome(b, e.Name, "denied", e.denied.Load())
		b = appendOutcome(b, e.Name, "recorded", e.recorded.Load())
		b = appendOutcome(b, e.Name, "error", e.failed.Load())
	}

	b = appendHelp(b, "weir_bad_requests_total", "counter", "Requests for decisions that were refused as bad input.")
	b = append(b, "weir_bad_requests_total "...)
	b = strconv.AppendInt(b, s.badInputs.Load(), 10)
	b = append(b, '\n')

	h := w.Header()
	h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h["Cache-Control"] = noStore
	w.Write(b)
}

func appendHelp(b []byte, name, kind, help string) []byte {
	b = append(b, "# HELP "+name+" "+help+"\n"...)
	return append(b, "# TYPE "+name+" "+kind+"\n"...)
}

// appendOutcome appends one counter. Names of policies need no escaping.
func appendOutcome(b []byte, policy, outcome string, n int64) []byte {
	b = append(b, `weir_decisions_total{policy="`...)
	b = append(b, policy...)
	b = append(b, `",outcome="`...)
	b = append(b, outcome...)
	b = append(b, `"} `...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, '\n')
}
