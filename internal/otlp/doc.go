// Package otlp sends spans of decisions to an OpenTelemetry collector, as OTLP over
// HTTP in its JSON form.
//
// It is a writer of one kind of span. The collector's own Go library would do the
// same and has more to it, which makes the program larger by three megabytes; what
// is written here is tried on the library by which collectors read.
//
// The bargain: a span is told when its decision is over, so a decision that never
// ends has none. Spans wait in a queue of bounded length, and are dropped, and
// counted, when a collector is slower than the decisions are or is away for long: a
// decision never waits for its span.
package otlp
