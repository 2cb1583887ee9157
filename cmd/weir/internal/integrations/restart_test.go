//go:build linux

package integrations

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// restarted is a weir that is restarted while requests arrive.
type restarted struct {
	t      *testing.T
	args   []string
	socket *os.File // the socket of its listener, which outlives it; nil = it opens its own
	*program.Server
}

// start starts weir, as systemd does if there is a socket.
func (w *restarted) start() {
	w.t.Helper()
	cmd := exec.Command(program.Path(w.t), w.args...)
	if w.socket != nil {
		args := append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", program.Path(w.t)}, w.args...)
		cmd = exec.Command("/bin/sh", args...)
		cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=weir.socket")
		cmd.ExtraFiles = []*os.File{w.socket}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.Server = program.Serve(w.t, cmd)
}

// restart ends weir with SIGTERM and starts it again. It returns the time without a weir.
func (w *restarted) restart() time.Duration {
	w.t.Helper()
	must.Do(w.t, w.Process.Signal(syscall.SIGTERM))
	must.Do(w.t, w.Wait())
	ended := time.Now()
	w.start()
	return time.Since(ended)
}

// outcomes counts answers by their status.
type outcomes struct {
	mu       sync.Mutex
	byStatus map[int]int
	all      atomic.Int64
}

// load sends requests of several users, one after the other on each of a few connections, until
// stop. It returns when stop is closed and the last answer is there.
func (s *stand) load(o *outcomes, stop <-chan struct{}) {
	const callers = 8
	s.client.Transport = &http.Transport{MaxIdleConnsPerHost: callers}
	s.t.Cleanup(s.client.CloseIdleConnections)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(4 * time.Millisecond): // steady, and not as fast as it goes
				}
				status := s.get("/", "X-User", fmt.Sprint(caller, "-", i/4)).status
				o.mu.Lock()
				o.byStatus[status]++
				o.mu.Unlock()
				o.all.Add(1)
			}
		})
	}
	all.Wait()
}

// wantNoneLost sends requests during restarts, which are some time apart, and wants a decision about
// each.
func (s *stand) wantNoneLost(apart time.Duration, restarts ...func() time.Duration) {
	s.t.Helper()
	const least = 1000
	o := outcomes{byStatus: map[int]int{}}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.load(&o, stop)
	}()
	await := func(more int64, duration time.Duration) {
		s.t.Helper()
		end, most := time.Now().Add(duration), o.all.Load()+more
		must.Await(s.t, fmt.Sprint(most, " requests"), func() bool { return o.all.Load() >= most && time.Now().After(end) })
	}
	for i, restart := range restarts {
		await(100, time.Duration(min(i, 1))*apart)
		s.t.Logf("no weir for %v", restart())
	}
	await(max(100, least-o.all.Load()), 0)
	close(stop)
	<-ended
	if lost := int(o.all.Load()) - o.byStatus[200] - o.byStatus[429]; lost > 0 || o.byStatus[200] == 0 || o.byStatus[429] == 0 {
		s.t.Errorf("%d of %d requests were lost: %v", lost, o.all.Load(), o.byStatus)
	}
}

// TestRestartBehindTwo: with a second weir in the upstream, each of the two is restarted in turn and
// no request is lost.
func TestRestartBehindTwo(t *testing.T) {
	t.Parallel()
	var weirs []*restarted
	p := proxies[0]
	first, second := free(t), free(t)
	p.edit = func(t *testing.T, text string) string {
		only := "    server " + first + ";\n"
		two := "    server " + first + " fail_timeout=1s;\n    server " + second + " fail_timeout=1s;\n"
		return replaceOnce(t, text, only, two)
	}
	p.serve = func(s *stand) {
		for _, address := range []string{first, second} {
			w := &restarted{t: t, args: []string{"serve", "--policies", s.write("policies.yaml", policies), "--listen", address}}
			w.start()
			weirs = append(weirs, w)
		}
	}
	s := newStand(t, p, func(o *Options) { o.Weir = first })
	// nginx counts whole seconds: it takes the first for down for less than two after its restart.
	s.wantNoneLost(2*time.Second, weirs[0].restart, weirs[1].restart)
}

// TestRestartOnASocket: one weir behind each proxy is restarted while its socket stays open, and no
// request is lost.
func TestRestartOnASocket(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", free(t))
			must.Do(t, err)
			defer l.Close()
			socket, err := l.(*net.TCPListener).File()
			must.Do(t, err)
			defer socket.Close()
			w := &restarted{t: t, socket: socket}
			p.serve = func(s *stand) {
				store := "file:" + filepath.Join(t.TempDir(), "store?sync=100ms")
				w.args = []string{"serve", "--policies", s.write("policies.yaml", policies), "--listen", s.options.Weir,
					"--store", store, "--store-budget", s.options.Timeout} // a busy disk is not the subject
				w.start()
			}
			s := newStand(t, p, func(o *Options) { o.Weir = l.Addr().String() })
			s.wantNoneLost(0, w.restart, w.restart)
		})
	}
}
