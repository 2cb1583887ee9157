package redistest

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirtest"
)

// Conformance runs the conformance kit through a connection, with default options and with
// every optimization turned off.
func Conformance(t *testing.T, conn weirredis.Conn, attempts, hammers int) {
	for _, c := range []struct {
		name     string
		opts     []weirredis.Option
		attempts int
		caches   time.Duration
	}{
		{"default", nil, attempts, 100 * time.Millisecond},
		{"plain", []weirredis.Option{weirredis.DisableBatching(), weirredis.DenialCacheTTL(0)}, 1_000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			weirtest.Run(t, func(t *testing.T) engine.Engine {
				e, err := weirredis.New(conn, c.opts...)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}, weirtest.Attempts(c.attempts), weirtest.Hammers(hammers), weirtest.CachesDenials(c.caches))
		})
	}
}
