package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for; nothing is expected to take long.
const patience = 20 * time.Second

// process is a weir serve of its own.
type process struct {
	*exec.Cmd
	addr string // host:port
	talk chan string
}

// startServe starts weir serve on a free port and waits until it listens.
func startServe(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("weir", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), talk: make(chan string, 1)}
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	lines, said := bufio.NewReader(stderr), ""
	for p.addr == "" {
		line, err := lines.ReadString('\n')
		said += line
		if err != nil {
			t.Fatalf("weir serve ended before it listened:\n%s", said)
		}
		if _, url, ok := strings.Cut(line, "listens on http://"); ok {
			p.addr = strings.TrimSpace(url)
		}
	}
	go func() {
		rest, _ := io.ReadAll(lines)
		p.talk <- said + string(rest)
	}()
	return p
}

// terminate sends SIGTERM.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end, which must be a good one.
func (p *process) ended(t *testing.T) {
	t.Helper()
	talk := <-p.talk
	if err := p.Wait(); err != nil || !strings.HasSuffix(talk, "drained, bye\n") {
		t.Errorf("weir serve ended with %v; it said:\n%s", err, talk)
	}
}
