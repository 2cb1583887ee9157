package redistest

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/needs"
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
			weirtest.Run(t, engines(conn, c.opts...),
				weirtest.Attempts(c.attempts), weirtest.Hammers(hammers), weirtest.CachesDenials(c.caches))
		})
	}
}

// ShortConformance runs the conformance kit through connections to servers of each version but that
// of Shared, which Conformance covers: all vectors, and a few random histories.
func ShortConformance(t *testing.T, connect func(t *testing.T, s *Server) weirredis.Conn) {
	OnEachVersion(t, func(t *testing.T, v Version) {
		s := v.Shared(t)
		if s.program == needs.Redis(t) {
			return
		}
		conn := connect(t, s)
		weirtest.Run(t, engines(conn),
			weirtest.Attempts(300), weirtest.Hammers(1), weirtest.CachesDenials(100*time.Millisecond))
	})
}

// engines returns a function that makes engines on a connection.
func engines(conn weirredis.Conn, opts ...weirredis.Option) func(t *testing.T) engine.Engine {
	return func(t *testing.T) engine.Engine {
		e, err := weirredis.New(conn, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}
