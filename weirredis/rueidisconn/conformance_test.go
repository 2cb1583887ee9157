package rueidisconn_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
	"github.com/weirlimit/weir/weirtest"
)

// TestConformance runs the conformance kit through the client, with default options and with
// every optimization turned off.
func TestConformance(t *testing.T) {
	conn, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{redistest.Shared(t).Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for _, c := range []struct {
		name     string
		opts     []weirredis.Option
		attempts int
		caches   weirtest.Option
	}{
		{"default", nil, 2_000, weirtest.CachesDenials(100 * time.Millisecond)},
		{"plain", []weirredis.Option{weirredis.DisableBatching(), weirredis.DenialCacheTTL(0)}, 1_000, weirtest.CachesDenials(0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			weirtest.Run(t, func(t *testing.T) engine.Engine {
				e, err := weirredis.New(conn, c.opts...)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}, weirtest.Attempts(c.attempts), weirtest.Hammers(2), c.caches)
		})
	}
}
