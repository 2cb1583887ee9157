package envoy

import (
	"log/slog"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
)

// Options configure a Service. The zero value has rolling windows and no header
// fields.
type Options struct {
	Engine engine.Engine // decides; default: a new memory engine
	Outage engine.Outage // answer of rules during an outage; default: that of Engine

	Windows  Windows
	Response *Headers // fields that the proxy adds to the client's response; nil = none
	Request  *Headers // fields that the proxy adds to the forwarded request; nil = none

	// MaxConnectionAge is the age, within a tenth, at which a connection gets a GOAWAY, so
	// that its client connects again; 0 = no bound. Calls in flight are still answered.
	MaxConnectionAge time.Duration

	Now func() time.Time // selects fixed windows; default: time.Now
	Log *slog.Logger     // default: no log

	Tracer observe.Tracer // receives a span for every request; default: none, at no cost
	// Top returns a new sketch for the keys that a rule denies, at its first denial; nil =
	// no sketches.
	Top func() *topkeys.Sketch

	ObserveDuration func(time.Duration) // receives the duration of each decision; default: none
}

// withDefaults returns o with the defaults of zero fields.
func (o Options) withDefaults() Options {
	if o.Engine == nil {
		o.Engine = weir.NewMemory()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ObserveDuration == nil {
		o.ObserveDuration = func(time.Duration) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
