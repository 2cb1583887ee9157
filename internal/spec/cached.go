package spec

import (
	"time"

	"github.com/weirlimit/weir/engine"
)

// Cached returns a denial as an engine on a shared store may repeat it from memory after
// that time (R8): marked, at a later instant, with waits that end when they ended before.
// The specification itself has no memory of denials.
func Cached(d engine.Result, after time.Duration) engine.Result {
	d.Cached, d.At = true, d.At.Add(after)
	if d.RetryAfter != engine.Never {
		d.RetryAfter -= after
	}
	d.ResetAfter = max(0, d.ResetAfter-after)
	return d
}
