// Package otlp sends spans of decisions to an OpenTelemetry collector, as OTLP over
// HTTP in its JSON form.
//
// It is a writer of one kind of span. OpenTelemetry's own SDK with its exporter does
// that too, has more to it, and makes the program larger by one and a half megabytes,
// which took it past the 30 MiB that it may have. What is written here is tried on
// the library by which collectors read.
//
// The bargain: a span is told when its decision is over, so a decision that never
// ends has none. Spans wait in a queue of bounded length, and are dropped, and
// counted, when a collector is slower than the decisions are or is away for long: a
// decision never waits for its span.
package otlp
