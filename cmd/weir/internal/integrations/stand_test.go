//go:build linux

package integrations

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// testTimeout bounds each wait of a test. A request that takes so long hangs.
const testTimeout = 20 * time.Second

// policies limit by a header and by the client's address, and one only observes.
const policies = `
version: 1
policies:
  users:     {limit: 3 per hour per user}
  addresses: {limit: 3 per hour per ip}
  observed:  {limit: 3 per hour per user, shadow: true}
  planned:   {limit: 3 per hour per user, plan-by: plan, plans: {pro: 9 per hour}}
  masked:    {limit: 5 per hour per masked_remote_address}
  many:      {limit: 100 per hour per ip}
  once:      {limit: 1 per hour per ip}
`

// stand is a real proxy between a client and an application, with a real weir
// beside it.
type stand struct {
	t       *testing.T
	proxy   proxy
	options Options
	grpc    string // listener of weir for Envoy, as in --grpc-listen; "" = none
	dir     string
	weir    *program.Server
	secrets string // content of weir's file of secrets
	app     *app
	client  *http.Client
}

// newStand starts the processes. change sets options of the snippet.
func newStand(t *testing.T, p proxy, change func(*Options)) *stand {
	t.Helper()
	p.find(t)
	s := bareStand(t)
	s.proxy, s.app = p, newApp(t)
	s.options = Options{Policy: "users", Dimension: "user", Header: "X-User",
		Weir: s.options.Weir, App: s.app.addr(), Listen: s.options.Listen, Dir: s.dir,
		Timeout: "10s"} // so that a busy machine is not taken for a weir that hangs
	change(&s.options)
	rendered := s.options
	if p.grpc {
		s.grpc = free(t)
		if !s.options.Allow { // both kinds of addresses are tried
			s.grpc = "unix:" + filepath.Join(s.dir, "grpc.sock")
		}
		rendered.Weir = s.grpc
	}
	made, err := Render(p.name, rendered)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range made {
		if p.edit != nil {
			f.Text = p.edit(t, f.Text)
		}
		s.write(f.Name, f.Text)
	}
	if p.serve == nil {
		p.serve = (*stand).startWeir
	}
	p.serve(s)
	p.start(s)
	s.await("tcp", s.options.Listen)
	return s
}

// bareStand is a stand without processes and without an application.
func bareStand(t *testing.T) *stand {
	return &stand{t: t, dir: t.TempDir(), client: &http.Client{Timeout: testTimeout}, secrets: thisSecret,
		options: Options{Weir: free(t), Listen: free(t)}}
}

const (
	thisSecret  = "the-secret-of-these-gates"
	otherSecret = "the-secret-of-other-gates"
)

func (s *stand) write(name, text string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.dir, name)
	must.Do(s.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// startWeir starts weir at the address in the snippet.
func (s *stand) startWeir() {
	s.t.Helper()
	args := []string{"serve", "--policies", s.write("policies.yaml", policies), "--listen", s.options.Weir, "--socket-mode", "0666"}
	if s.options.Secret {
		args = append(args, "--gate-secret-file", s.write("secrets", s.secrets))
	}
	if s.grpc != "" {
		args = append(args, "--grpc-listen", s.grpc)
	}
	if s.grpc != "" && !s.options.OfPolicy {
		args = append(args, "--envoy-config", filepath.Join(s.dir, "ratelimit.yaml"))
	}
	cmd := exec.Command(program.Path(s.t), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.weir = program.Serve(s.t, cmd)
}

// freezeWeir suspends weir with its connections open, until SIGCONT. It waits until all
// its threads have stopped.
func (s *stand) freezeWeir() {
	s.t.Helper()
	s.weir.Process.Signal(syscall.SIGSTOP)
	must.Await(s.t, "all threads of weir have stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.weir.Process.Pid))
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(thread string) bool {
			b, err := os.ReadFile(thread)
			return err == nil && !strings.Contains(string(b), ") T ")
		})
	})
}

// killWeir kills weir without a shutdown, like a crash.
func (s *stand) killWeir() {
	s.weir.Process.Kill()
	s.weir.Wait()
}

// run starts a program that ends with the test.
func (s *stand) run(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(needs.Program(s.t, name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "WEIR_GATE_SECRET="+thisSecret, "HOME="+s.dir, "XDG_DATA_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	log, err := os.OpenFile(filepath.Join(s.dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	must.Do(s.t, cmd.Start())
	s.t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nginx has workers
		cmd.Wait()
		log.Close()
		if s.t.Failed() {
			s.t.Logf("%s printed:\n%s", name, s.log())
		}
	})
	return cmd
}

// logName is the file in the stand's directory with the output of the program.
const logName = "output of the program"

// log returns the output of the program so far.
func (s *stand) log() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, logName))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// await waits until an address accepts connections. A busy machine may start a program late.
func (s *stand) await(network, address string) {
	s.t.Helper()
	for end := time.Now().Add(3 * testTimeout); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial(network, address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			s.t.Fatal(err)
		}
	}
}

// reply is the answer to a client of the proxy.
type reply struct {
	status int
	header http.Header
	body   string
}

// get sends a request to the proxy. fields are names and values of header fields in
// turns.
func (s *stand) get(path string, fields ...string) reply {
	s.t.Helper()
	return s.do("GET", path, "", fields...)
}

func (s *stand) do(method, path, body string, fields ...string) reply {
	s.t.Helper()
	r, err := http.NewRequest(method, "http://"+s.options.Listen+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	r.Host = cmp.Or(r.Header.Get("Host"), r.Host)
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(b)}
}

// app is the application behind the proxy. It answers /status/N with N, an upgrade of
// /echo with another protocol, and other requests with 200 and the length of the body.
type app struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newApp(t *testing.T) *app {
	a := new(app)
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *app) addr() string { return a.Listener.Addr().String() }

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	a.mu.Lock()
	a.seen = append(a.seen, r)
	a.mu.Unlock()
	if r.URL.Path == "/echo" && r.Header.Get("Upgrade") != "" {
		echo(w)
		return
	}
	if status, ok := strings.CutPrefix(r.URL.Path, "/status/"); ok {
		code, _ := strconv.Atoi(status)
		w.WriteHeader(code)
	}
	fmt.Fprintf(w, "app: %s, %d bytes", r.Method, n)
}

// requests returns the number of requests to the application.
func (a *app) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// asked returns the request to the application with an index, from 0.
func (a *app) asked(i int) *http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[i]
}

// free returns an address that no other test gets while this one runs.
func free(t *testing.T) string {
	t.Helper()
	address, err := listentest.HoldPort()
	must.Do(t, err)
	t.Cleanup(func() { listentest.ReleasePort(address) })
	return address
}

// peeked is the state of a key under one limit.
type peeked struct {
	RetryAfter int64 `json:"retry_after_ms"`
	Limits     []struct{ Used int64 }
}

func (p peeked) used() int64 { return p.Limits[0].Used }

// peek returns the state that weir has.
func (s *stand) peek(policy, dimension, value string) (p peeked) {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"policy": policy, "key": map[string]string{dimension: value}})
	res, err := http.Post("http://"+s.options.Weir+"/v1/peek", "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || len(p.Limits) != 1 {
		s.t.Fatalf("peek of %q: %s: %+v, %v", value, res.Status, p, err)
	}
	return p
}
