package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// Serve ends with an error if the store rejects its password, also after startTimeout.
func TestServeEndsOnWrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "s3cret")
	p := redistest.NewProxy(t, server.Addr)
	p.Latency(startTimeout, startTimeout+50*time.Millisecond)
	out, err := exec.Command("weir", "serve", "--listen", "127.0.0.1:0", "--store", "redis://:wr0ng@"+p.Addr).CombinedOutput()
	var exit *exec.ExitError
	said := string(out)
	if !errors.As(err, &exit) || exit.ExitCode() != exitStore || !strings.Contains(said, "weir listens on") || !strings.Contains(said, "weir serve: store: refused: redis://"+p.Addr+": it rejects user or password (WRONGPASS)") {
		t.Errorf("%v, want exit code %d; it said:\n%s", err, exitStore, said)
	}
	if strings.Contains(said, "wr0ng") {
		t.Errorf("stderr has the password:\n%s", said)
	}
}
