package weirredis_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/goredisconn"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
	"github.com/weirlimit/weir/weirtest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(processEnv); addr != "" {
		if err := serveCalls(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(redistest.Main(m))
}

// cachesDenials names the documented time of a cached denial.
var cachesDenials = weirtest.CachesDenials(100 * time.Millisecond)

// TestConformance runs the conformance kit through both clients, with default options and
// with every optimization turned off.
func TestConformance(t *testing.T) {
	plain := []weirredis.Option{weirredis.DisableBatching(), weirredis.DenialCacheTTL(0)}
	for _, c := range []struct {
		name     string
		conn     weirredis.Conn
		opts     []weirredis.Option
		attempts int
		hammers  int
	}{
		{"rueidis", rueidisConn(t), nil, 5_000, 5},
		{"rueidis, plain", rueidisConn(t), plain, 1_000, 3},
		{"rueidis, not merged", rueidisConn(t), []weirredis.Option{weirredis.DisableMerging()}, 1_000, 2},
		{"go-redis", goredisConn(t), nil, 1_000, 2},
		{"go-redis, plain", goredisConn(t), plain, 1_000, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := []weirtest.Option{weirtest.Attempts(c.attempts), weirtest.Hammers(c.hammers)}
			if !strings.Contains(c.name, "plain") { // those cache nothing
				opts = append(opts, cachesDenials)
			}
			weirtest.Run(t, func(t *testing.T) weir.Engine { return newEngine(t, c.conn, c.opts...) }, opts...)
		})
	}
}

// TestConformanceOfLongHistories cuts histories into pieces of a few bytes, so that a few
// entries already have fronts, chunks, blocks and tails.
func TestConformanceOfLongHistories(t *testing.T) {
	conn := rueidisConn(t)
	for _, z := range []weirredis.Sizes{{Run: 0, Piece: 1, Chunk: 1, Block: 2}, {Run: 9, Piece: 8, Chunk: 26, Block: 3}, {Run: 20, Piece: 5, Chunk: 12, Block: 4}} {
		t.Run(fmt.Sprint(z), func(t *testing.T) {
			sized := weirredis.WithSizes(z)
			weirtest.Run(t, func(t *testing.T) weir.Engine { return newEngine(t, conn, sized) },
				weirtest.Attempts(5_000), weirtest.Hammers(1), cachesDenials)
		})
	}
}

// TestConformanceOfSeveralProcesses runs the conformance kit on one server through
// several engines, each as in its own process.
func TestConformanceOfSeveralProcesses(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) weir.Engine {
		return &processes{engines: []weir.Engine{
			newEngine(t, rueidisConn(t)),
			newEngine(t, rueidisConn(t), weirredis.DisableBatching()),
			newEngine(t, goredisConn(t)),
		}}
	}, weirtest.Attempts(1_000), weirtest.Hammers(6), weirtest.Goroutines(24), cachesDenials, weirtest.Separate())
}

// processes sends each call to the next of its engines.
type processes struct {
	engines []weir.Engine
	next    atomic.Int64
}

func (p *processes) engine() weir.Engine {
	return p.engines[int(p.next.Add(1))%len(p.engines)]
}

func (p *processes) Decide(ctx context.Context, plan *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	return p.engine().Decide(ctx, plan, k, a)
}

func (p *processes) Refund(ctx context.Context, plan *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	return p.engine().Refund(ctx, plan, k, at, n, now)
}

func (p *processes) Count(ctx context.Context, plan *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	return p.engine().Count(ctx, plan, k, i, last, now)
}

func (p *processes) Reset(ctx context.Context, plan *weir.Plan, k weir.Key) error {
	return p.engine().Reset(ctx, plan, k)
}

func newEngine(t testing.TB, conn weirredis.Conn, opts ...weirredis.Option) *weirredis.Engine {
	t.Helper()
	// Mutants change templates and do not write lua/generated.
	e, err := weirredis.New(conn, append([]weirredis.Option{weirredis.FromTemplates()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func rueidisConn(t testing.TB) *rueidisconn.Conn { return connTo(t, redistest.Shared(t)) }

func connTo(t testing.TB, s *redistest.Server) *rueidisconn.Conn {
	t.Helper()
	c, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func goredisConn(t testing.TB) *goredisconn.Conn {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Shared(t).Addr})
	t.Cleanup(func() { client.Close() })
	c, err := goredisconn.New(client)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
