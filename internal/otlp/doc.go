// Package otlp sends spans of decisions to an OpenTelemetry collector, as OTLP over HTTP in
// its JSON form.
//
// It writes one kind of span. OpenTelemetry's own SDK with its exporter (1.47) does that
// too. It adds 15 modules and one megabyte to the program, does not retry a refused
// connection, drops the query of the endpoint, and does not count spans that its queue
// loses. Tests read the spans with the library that collectors use.
//
// Trade-off: a span is written when its decision is over, so a decision that never ends
// has none. Spans wait in a bounded queue. When a collector is slow or away for long they
// are dropped and counted: a decision never waits for its span.
package otlp
