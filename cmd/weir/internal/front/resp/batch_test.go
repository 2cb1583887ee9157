package resp

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// counting counts the calls of an engine.
type counting struct {
	engine.Engine
	steps int
}

func (c *counting) Do(ctx context.Context, calls []engine.Call) {
	c.steps++
	c.Engine.Do(ctx, calls)
}

// TestPipelineIsDecidedInOneStep: with a remote store, decisions that follow each other are
// made in one call. Errors of some change nothing for the others.
func TestPipelineIsDecidedInOneStep(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s := newTestServerOn(t, e, nil, func(c *Config) { c.Waits = true })
	got := say(t, s, words("WEIR.CHECK big k=1")+words("WEIR.CHECK none k=1")+words("WEIR.RESERVE push teacher=1 3")+
		words("WEIR.PEEK push teacher=1")+words("WEIR.CHECK push teacher=1 9223372036854775807")+words("WEIR.RECORD push teacher=1 2 ID a"))
	want := `^\*9\r\n:1\r\n(?s:.*)-ERR no policy.*\r\n\*11\r\n:1\r\n:3\r\n:7\r\n(?s:.*)\*9\r\n:1\r\n:1\r\n:7\r\n(?s:.*)-ERR n must be.*\r\n\*10\r\n:1\r\n:2\r\n:5\r\n`
	if !regexp.MustCompile(want).MatchString(got) || e.steps != 1 {
		t.Errorf("%d steps, %q; want 1 step, %s", e.steps, got, want)
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
