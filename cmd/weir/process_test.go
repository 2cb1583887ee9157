package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// testTimeout bounds each wait of a test.
const testTimeout = 20 * time.Second

// runWeir runs a command line within the process of the test.
func runWeir(args ...string) (code int, stdout, stderr string) {
	var out, messages strings.Builder
	code = run(args, strings.NewReader(""), &out, &messages)
	return code, out.String(), messages.String()
}

// process is a weir serve in a process of its own.
type process struct {
	*program.Server
	addr string // host:port
}

// startServe starts weir serve on a free port and waits until it listens. When the test ends,
// the server must exit cleanly, unless the test has killed it.
func startServe(t *testing.T, args ...string) *process {
	t.Helper()
	return startServeWith(t, exec.Command("weir"), args...)
}

// startServeWith starts weir serve through by, a command that runs weir with the arguments
// after its own. The environment is that of the test and that of by. The server does not
// linger, unless args have --linger.
func startServeWith(t *testing.T, by *exec.Cmd, args ...string) *process {
	t.Helper()
	by.Args = append(append(by.Args, "serve", "--listen", "127.0.0.1:0", "--linger", "0"), args...)
	by.Env = append(append(os.Environ(), by.Env...), "GORACE=atexit_sleep_ms=0")
	s := program.Serve(t, by)
	p := &process{s, s.Main}
	t.Cleanup(func() {
		if p.ProcessState == nil && !t.Failed() {
			p.terminate(t)
			p.ended(t)
		}
	})
	return p
}

// awaitOutput waits until stderr contains words, and returns all of stderr.
func (p *process) awaitOutput(t *testing.T, words string) string {
	t.Helper()
	must.Await(t, "stderr with "+words, func() bool { return strings.Contains(p.Output(), words) })
	return p.Output()
}

// getPage returns the status and the body of a page, of the listener at an address.
func getPage(t *testing.T, address, path string) (status int, body string) {
	t.Helper()
	r, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r.StatusCode, string(text)
}

// metric returns the value of a series.
func metric(t *testing.T, address, series string) int64 {
	t.Helper()
	_, text := getPage(t, address, "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int64(v)
		}
	}
	t.Fatalf("/metrics has no %s", series)
	return 0
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	p.Process.Kill()
	p.Wait()
}

// terminate sends SIGTERM.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	must.Do(t, p.Process.Signal(syscall.SIGTERM))
}

// ended waits for the exit, which must be clean, and returns all of stderr.
func (p *process) ended(t *testing.T) string {
	t.Helper()
	<-p.Ended
	talk := p.Output()
	if err := p.Wait(); err != nil || !strings.HasSuffix(talk, "drained, bye\n") {
		t.Errorf("weir serve ended with %v; stderr:\n%s", err, talk)
	}
	return talk
}
