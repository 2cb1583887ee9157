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

// testTimeout bounds each wait of a test.
const testTimeout = 20 * time.Second

// process is a separate weir serve.
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
	return startServeWith(t, exec.Command("weir"), args...)
}

// startServeWith starts weir serve through a command that runs weir with the arguments
// after its own, and in the environment of the test with that of the command. It does not
// linger at its end, unless args have --linger.
func startServeWith(t *testing.T, by *exec.Cmd, args ...string) *process {
	t.Helper()
	by.Args = append(append(by.Args, "serve", "--listen", "127.0.0.1:0", "--linger", "0"), args...)
	p := &process{Cmd: by, done: make(chan struct{})}
	p.Env = append(append(os.Environ(), by.Env...), "GORACE=atexit_sleep_ms=0")
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
	talk := p.awaitOutput(t, "  look ") // the last line of the banner
	_, url, _ := strings.Cut(talk, "listens on http://")
	p.addr, _, _ = strings.Cut(url, "\n")
	return p
}

// awaitOutput waits until stderr contains words, and returns all of stderr.
func (p *process) awaitOutput(t *testing.T, words string) string {
	t.Helper()
	for end := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		talk := p.said.String()
		p.mu.Unlock()
		if strings.Contains(talk, words) {
			return talk
		}
		if time.Now().After(end) {
			t.Fatalf("stderr lacks %q; it is:\n%s", words, talk)
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

// ended waits for the exit, which must be clean, and returns all of stderr.
func (p *process) ended(t *testing.T) string {
	t.Helper()
	<-p.done
	talk := p.said.String()
	if err := p.Wait(); err != nil || !strings.HasSuffix(talk, "drained, bye\n") {
		t.Errorf("weir serve ended with %v; stderr:\n%s", err, talk)
	}
	return talk
}
