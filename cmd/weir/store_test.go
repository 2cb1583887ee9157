package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// lockedBuilder is a strings.Builder for several goroutines.
type lockedBuilder struct {
	mu sync.Mutex
	strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *lockedBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.String()
}

// Serve ends with an error if the store rejects its password, also after startTimeout.
func TestServeEndsOnWrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "s3cret")
	p := redistest.NewProxy(t, server.Addr)
	p.Latency(startTimeout, startTimeout+50*time.Millisecond)
	var stderr lockedBuilder
	code := run([]string{"serve", "--listen", "127.0.0.1:0", "--store", "redis://:wr0ng@" + p.Addr}, strings.NewReader(""), &stderr, &stderr)
	said := stderr.String()
	if code != exitStore || !strings.Contains(said, "weir listens on") || !strings.Contains(said, "weir serve: store: refused: redis://"+p.Addr+": it rejects user or password (WRONGPASS)") {
		t.Errorf("exit code %d, want %d; it said:\n%s", code, exitStore, said)
	}
	if strings.Contains(said, "wr0ng") {
		t.Errorf("stderr has the password:\n%s", said)
	}
}
