//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// manager opens sockets for weir serve, as systemd does, and records the states that weir
// reports.
type manager struct {
	t      *testing.T
	files  []*os.File
	notify string // path of the socket for states

	mu     sync.Mutex
	states []string // in the order of their arrival
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t: t, notify: filepath.Join(t.TempDir(), "notify")}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		for message := make([]byte, 4096); ; {
			n, err := c.Read(message)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.states = append(m.states, strings.Fields(string(message[:n]))...)
			m.mu.Unlock()
		}
	}()
	return m
}

// await waits until exactly the wanted states have arrived. The time of a reload is ignored.
func (m *manager) await(want ...string) {
	m.t.Helper()
	must.Await(m.t, fmt.Sprintf("the states %q", want), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		isTime := func(state string) bool { return strings.HasPrefix(state, "MONOTONIC_USEC=") }
		return slices.Equal(slices.DeleteFunc(slices.Clone(m.states), isTime), want)
	})
}

// listen opens a socket and returns its address.
func (m *manager) listen(network, address string) string {
	m.t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { l.Close() })
	file, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { file.Close() })
	m.files = append(m.files, file)
	return l.Addr().String()
}

// command returns a command that runs weir with the sockets. A shell sets LISTEN_PID, because
// only it has the process id of weir.
func (m *manager) command(args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", program.Path(m.t)}, args...)...)
	cmd.ExtraFiles = m.files
	cmd.Env = append(os.Environ(), fmt.Sprint("LISTEN_FDS=", len(m.files)), "NOTIFY_SOCKET="+m.notify, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// TestSocketsOfAManager: weir serves every listener on sockets of a manager and reports its
// states. A connection that arrives between two processes waits for the second.
func TestSocketsOfAManager(t *testing.T) {
	m := newManager(t)
	dir := t.TempDir()
	main := m.listen("tcp", "127.0.0.1:0")
	grpc := m.listen("tcp", "127.0.0.1:0")
	resp := m.listen("unix", filepath.Join(dir, "resp"))
	admin := m.listen("unix", filepath.Join(dir, "admin"))
	cmd := func() *exec.Cmd {
		return m.command("serve", "--linger=0", "--listen="+main, "--grpc-listen="+grpc, "--resp-listen=unix:"+resp, "--admin-listen=unix:"+admin)
	}
	first := program.Serve(t, cmd())
	m.await("READY=1")
	served := func(network, address string) {
		t.Helper()
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for _, a := range []string{main, grpc} {
		served("tcp", a)
	}
	for _, a := range []string{resp, admin} {
		served("unix", a)
	}
	if status, body := getPage(t, main, "/readyz"); status != 200 {
		t.Errorf("/readyz: %d, %s", status, body)
	}
	must.Do(t, first.Process.Signal(syscall.SIGHUP))
	m.await("READY=1", "RELOADING=1", "READY=1")
	http.DefaultClient.CloseIdleConnections()
	must.Do(t, first.Process.Signal(syscall.SIGTERM))
	must.Do(t, first.Wait())
	m.await("READY=1", "RELOADING=1", "READY=1", "STOPPING=1")

	answered := make(chan string, 1)
	go func() { // no process accepts connections now
		r, err := http.Get("http://" + main + "/livez")
		if err != nil {
			answered <- err.Error()
			return
		}
		r.Body.Close()
		answered <- r.Status
	}()
	second := program.Serve(t, cmd())
	if got := <-answered; got != "200 OK" {
		t.Errorf("a request between two processes: %s", got)
	}
	http.DefaultClient.CloseIdleConnections()
	must.Do(t, second.Process.Signal(syscall.SIGTERM))
	must.Do(t, second.Wait())
	if _, err := os.Lstat(admin); err != nil {
		t.Errorf("the socket of the manager is gone: %v", err)
	}
}

// TestSocketOfNoListener: weir does not start with a socket that no listener would serve, or
// with a socket that is not a stream.
func TestSocketOfNoListener(t *testing.T) {
	m := newManager(t)
	address := m.listen("tcp", "127.0.0.1:0")
	out, err := m.command("serve", "--listen=127.0.0.1:0").CombinedOutput()
	if want := "a socket on " + address + ", and no listener has that address; set --listen"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, %s; want %q", err, out, want)
	}
	m = newManager(t)
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m.files = []*os.File{file}
	out, err = m.command("serve", "--listen=127.0.0.1:0").CombinedOutput()
	if want := "its unit needs ListenStream= and Accept=no"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, %s; want %q", err, out, want)
	}
}

// TestSocketActivation: systemd-socket-activate passes a socket and starts weir at the first
// request.
func TestSocketActivation(t *testing.T) {
	activate := needs.Program(t, "systemd-socket-activate")
	address, err := listentest.HoldPort()
	must.Do(t, err)
	t.Cleanup(func() { listentest.ReleasePort(address) })
	cmd := exec.Command(activate, "--listen="+address, program.Path(t), "serve", "--linger=0", "--listen="+address)
	s, err := program.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	must.Do(t, s.Await(func(output string) bool { return strings.Contains(output, "Listening on "+address) }))
	if status, body := getPage(t, address, "/livez"); status != 200 {
		t.Errorf("/livez: %d, %s", status, body)
	}
	http.DefaultClient.CloseIdleConnections()
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.Output())
	}
}
