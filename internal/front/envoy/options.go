package envoy

import (
	"log/slog"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/topkeys"
)

// Options say how a Service answers. The zero value is right for most: rolling
// windows, no header fields, no metadata.
type Options struct {
	Engine weir.Engine   // decides; default: a memory engine of its own
	Outage fallback.Mode // what becomes of rules while the store is out, where Engine is a Fallback
	Apart  func() bool   // reports whether histories of different keys cannot be decided in one step, as in a Redis Cluster; nil = they can

	Windows  Windows
	Response *Headers // fields that the proxy adds to the client's answer; nil = none
	Request  *Headers // fields that it adds to the request on its way; nil = none
	Metadata bool     // say in dynamic_metadata what was asked, and what rules with metadata have to say
	Shadow   bool     // answer OK whatever was decided; statuses tell the truth
	Quota    bool     // take every rule as one with quota_mode

	// MaxConnectionAge is how long a connection may last, give or take a tenth, before
	// its client is asked to connect anew; 0 = for ever. What is under way then is still
	// answered.
	MaxConnectionAge time.Duration

	Now func() time.Time // for windows that do not roll; default: time.Now
	Log *slog.Logger     // default: no log

	Tracer observe.Tracer // is told of every request; default: none, and then nothing is computed for it
	// Top makes a sketch of the keys that a rule denies, when it first denies one; nil
	// = nobody wants to know.
	Top func() *topkeys.Sketch

	Took func(time.Duration) // is told how long each request took to decide; default: nobody is
}

// Headers are the names of header fields.
type Headers struct{ Limit, Remaining, Reset string }

// DefaultHeaders are the names that the reference gives.
var DefaultHeaders = Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.Engine == nil {
		o.Engine = weir.NewMemory()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Took == nil {
		o.Took = func(time.Duration) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
