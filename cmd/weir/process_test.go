package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for; nothing is expected to take long.
const patience = 20 * time.Second

// process is a weir serve of its own.
type process struct {
	*exec.Cmd
	addr string        // host:port
	done chan struct{} // closed when it has closed its stderr

	mu   sync.Mutex
	said strings.Builder
}

// startServe starts weir serve on a free port and waits until it listens.
func startServe(t *testing.T, args ...string) *process {
	t.Helper()
	return startServeBy(t, exec.Command("weir"), args...)
}

// startServeBy is startServe by a command that runs weir with the arguments behind its
// own.
func startServeBy(t *testing.T, by *exec.Cmd, args ...string) *process {
	t.Helper()
	by.Args = append(append(by.Args, "serve", "--listen", "127.0.0.1:0"), args...)
	p := &process{Cmd: by, done: make(chan struct{})}
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.said.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
	}()
	talk := p.awaitTalk(t, "  look ") // the last line of the banner
	_, url, _ := strings.Cut(talk, "listens on http://")
	p.addr, _, _ = strings.Cut(url, "\n")
	return p
}

// awaitTalk waits until the process has said something that holds words, and
// returns all that it has said.
func (p *process) awaitTalk(t *testing.T, words string) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		talk := p.said.String()
		p.mu.Unlock()
		if strings.Contains(talk, words) {
			return talk
		}
		if time.Now().After(end) {
			t.Fatalf("weir serve does not say %q; it said:\n%s", words, talk)
		}
	}
}

// terminate sends SIGTERM.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end, which must be a good one, and returns all that was said.
func (p *process) ended(t *testing.T) string {
	t.Helper()
	<-p.done
	talk := p.said.String()
	if err := p.Wait(); err != nil || !strings.HasSuffix(talk, "drained, bye\n") {
		t.Errorf("weir serve ended with %v; it said:\n%s", err, talk)
	}
	return talk
}
