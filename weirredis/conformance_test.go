package weirredis_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/internal/redistest"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
	"github.com/weirlimit/weir/weirtest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func rueidisConn(t testing.TB) *rueidisconn.Conn {
	t.Helper()
	c, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{redistest.Shared(t).Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRueidisConformance(t *testing.T) {
	conn := rueidisConn(t)
	weirtest.Run(t, func(t *testing.T) weir.Engine { return newEngine(t, conn) })
}

// TestLongHistories cuts histories into pieces of a few bytes, so that they have
// fronts, chunks, blocks and tails after a few entries.
func TestLongHistories(t *testing.T) {
	conn := rueidisConn(t)
	for _, z := range []weirredis.Sizes{{Run: 0, Chunk: 1, Block: 2}, {Run: 9, Chunk: 8, Block: 3}, {Run: 20, Chunk: 5, Block: 4}} {
		t.Run(fmt.Sprint(z), func(t *testing.T) {
			sized := weirredis.WithSizes(z)
			weirtest.Run(t, func(t *testing.T) weir.Engine { return newEngine(t, conn, sized) },
				weirtest.Attempts(5_000), weirtest.Hammers(2))
		})
	}
}

func newEngine(t testing.TB, conn weirredis.Conn, opts ...weirredis.Option) *weirredis.Engine {
	t.Helper()
	e, err := weirredis.New(conn, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
