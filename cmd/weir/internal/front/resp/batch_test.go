package resp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// gathering is an engine that holds attempts until a number of them is in flight.
type gathering struct {
	engine.Engine
	mu    sync.Mutex
	under int
	want  int
	all   chan struct{}
}

func (g *gathering) Do(ctx context.Context, calls []engine.Call) {
	g.mu.Lock()
	if g.under++; g.under == g.want {
		close(g.all)
	}
	g.mu.Unlock()
	select {
	case <-g.all:
		g.Engine.Do(ctx, calls)
	case <-time.After(patience):
		calls[0].Fail(fmt.Errorf("only %d of %d attempts came together", g.under, g.want))
	}
}

// TestPipelineIsDecidedConcurrently: with a remote store, decisions on different keys are
// in flight at the same time.
func TestPipelineIsDecidedConcurrently(t *testing.T) {
	var log logged
	g := &gathering{Engine: weir.NewMemory(), want: 16, all: make(chan struct{})}
	s := newTestServerOn(t, g, nil, func(c *Config) { c.Waits, c.Log = true, log.log() })
	var keys []string
	for lines := map[uint64]bool{}; len(keys) < g.want; { // keys that share no line
		key := fmt.Sprint("k=", rand.Int())
		w := waiting{cmd: byName["WEIR.CHECK"], args: []string{"big", key}}
		if line := w.queue() % maxQueues; !lines[line] {
			lines[line] = true
			keys = append(keys, key)
		}
	}
	var ask strings.Builder
	for _, key := range keys {
		ask.WriteString(array("WEIR.CHECK", "big", key))
	}
	if got := say(t, s, ask.String()); strings.Count(got, "*9\r\n:1\r\n") != g.want {
		t.Errorf("%q, want %d grants", got, g.want)
	}
}

// TestOneKeyKeepsItsOrder: commands on one key run one after the other, and all answers
// have the order of the commands, also around a reset.
func TestOneKeyKeepsItsOrder(t *testing.T) {
	for _, waits := range []bool{false, true} {
		s := newTestServer(t, func(c *Config) { c.Waits = waits })
		var ask, want strings.Builder
		for i := range 700 { // more than one batch
			if i%70 == 69 {
				ask.WriteString("PING\r\n")
				want.WriteString("+PONG\r\n")
			}
			key, n := fmt.Sprint("k=", i%7), 1+i/7
			ask.WriteString(array("WEIR.RECORD", "big", key, fmt.Sprint(n)))
			fmt.Fprintf(&want, "%d ", int64(1<<40)-int64(n*(n+1)/2))
		}
		got := say(t, s, ask.String())
		var remaining strings.Builder
		for _, reply := range strings.SplitAfter(got, "*9\r\n")[1:] {
			remaining.WriteString(strings.Split(reply, "\r\n")[2][1:] + " ")
			if strings.Contains(reply, "+PONG\r\n") {
				remaining.WriteString("+PONG\r\n")
			}
		}
		if remaining.String() != want.String() {
			t.Errorf("waits %v: remaining units:\n%.400s\nwant\n%.400s", waits, remaining.String(), want.String())
		}
	}
}

// TestDimensionsMayHaveAnyOrder: dimensions in another order are the same key.
func TestDimensionsMayHaveAnyOrder(t *testing.T) {
	cmd := byName["WEIR.CHECK"]
	a := waiting{cmd: cmd, args: []string{"wide", "tenant=1", "user=2"}}
	b := waiting{cmd: byName["WEIR.RESET"], args: []string{"wide", "user=2", "tenant=1", "5"}}
	if a.queue() != b.queue() {
		t.Error("one key has two lines")
	}
}

// TestPipelinesOnRedisKeepLimits: many pipelines at once on Redis grant no more than Max.
func TestPipelinesOnRedisKeepLimits(t *testing.T) {
	redis, _ := enginetest.On(t, redistest.Shared(t).Addr)
	engine := fallback.New(redis, fallback.Deny, fallback.Timeout(patience))
	redistest.Shared(t).Must(t, "FLUSHALL")
	s := newTestServerOn(t, engine, nil, func(c *Config) { c.Waits = true })
	address := listening(t, s)
	ask := strings.Repeat(array("WEIR.CHECK", "push", "teacher=42"), 32)
	var mu sync.Mutex
	granted, failed := 0, 0
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			c := dial(t, address)
			send(t, c, ask+"QUIT\r\n")
			var b strings.Builder
			buf := make([]byte, 4096)
			for {
				n, err := c.Read(buf)
				b.Write(buf[:n])
				if err != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			granted += strings.Count(b.String(), "*9\r\n:1\r\n")
			failed += strings.Count(b.String(), "-UNAVAILABLE")
			if n := strings.Count(b.String(), "*9") + strings.Count(b.String(), "-"+codeUnavailable); n != 32 {
				t.Errorf("%d answers to 32 commands: %q", n, b.String())
			}
		})
	}
	all.Wait()
	if granted > 10 || failed == 0 && granted != 10 {
		t.Errorf("%d granted, want 10; %d failed", granted, failed)
	}
}
