package weirredis_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirtest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// cachesDenials names the documented time of a cached denial.
var cachesDenials = weirtest.CachesDenials(100 * time.Millisecond)

// TestConformance runs the conformance kit. The modules of the clients run it through their
// clients.
func TestConformance(t *testing.T) { redistest.Conformance(t, redisConn(t), 5_000, 5) }

// TestConformanceOfEachVersion: scripts decide alike on every server.
func TestConformanceOfEachVersion(t *testing.T) {
	redistest.ShortConformance(t, func(t *testing.T, s *redistest.Server) weirredis.Conn { return s.Conn(t) })
}

// TestConformanceOfLongHistories cuts histories into chunks of a few bytes, so that a few
// entries already have chunks and a tail.
func TestConformanceOfLongHistories(t *testing.T) {
	conn := redisConn(t)
	for _, bytes := range []int{1, 7, 20} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			chunks := weirredis.WithChunks(bytes)
			weirtest.Run(t, func(t *testing.T) engine.Engine { return newEngine(t, conn, chunks) },
				weirtest.Attempts(race.Fewer(10_000)), weirtest.Hammers(1), cachesDenials)
		})
	}
}

// TestConformanceOfSeveralProcesses runs the conformance kit on one server through
// several engines, each as in its own process.
func TestConformanceOfSeveralProcesses(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) engine.Engine {
		return &processes{engines: []engine.Engine{
			newEngine(t, redisConn(t)),
			newEngine(t, redisConn(t), weirredis.DisableBatching()),
			newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0)),
		}}
	}, weirtest.Attempts(1_000), weirtest.Hammers(6), cachesDenials, weirtest.Separate())
}

// processes sends the calls of each Do to the next of its engines.
type processes struct {
	engines []engine.Engine
	next    atomic.Int64
}

func (p *processes) Do(ctx context.Context, calls []engine.Call) {
	p.engines[int(p.next.Add(1))%len(p.engines)].Do(ctx, calls)
}

func newEngine(t testing.TB, conn weirredis.Conn, opts ...weirredis.Option) *weirredis.Engine {
	t.Helper()
	store, err := weirredis.New(conn, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func redisConn(t testing.TB) *redistest.Conn { return redistest.Shared(t).Conn(t) }
