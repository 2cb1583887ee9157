package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/httprate"

	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

// A service is limited to 20 requests in a second by address.
type service struct {
	name, settings string
	version        func(s *site) string
	start          func(s *site) (url string, stop func(), err error)
}

const weirServe = "weir serve"

// all returns the services, Weir first.
func all() []service {
	return []service{
		{
			name:     weirServe,
			settings: "`20 per second per ip`",
			version:  func(*site) string { return "this checkout" },
			start:    (*site).startWeir,
		},
		{
			name:     "nginx limit_req",
			settings: "`rate=20r/s`, `burst=19 nodelay`",
			version:  (*site).nginxVersion,
			start:    (*site).startNginx,
		},
		{
			name:     "httprate",
			settings: "`LimitBy(20, time.Second, …)`",
			version:  func(*site) string { return httprateVersion() },
			start:    startHTTPRate,
		},
		nodeService("express-rate-limit", "`limit: 20, windowMs: 1000`"),
		nodeService("rate-limiter-flexible", "`points: 20, duration: 1`"),
		flaskService("fixed-window", "the default, `20 per second`"),
		flaskService("sliding-window-counter", "`20 per second`"),
		flaskService("moving-window", "`20 per second`"),
	}
}

// modules has the packages of Node, and requirements those of Python. Both belong to tests of the
// clients.
const (
	modules      = "../clients/node/test/modules"
	requirements = "../clients/python/tests/requirements.txt"
)

// A site has the parts that all services share.
type site struct {
	dir     string                 // temporary
	weir    string                 // the program
	modules func() error           // installs the packages of Node, once
	python  func() (string, error) // installs those of Python, once, and returns the interpreter
}

func newSite() (s *site, err error) {
	s = &site{modules: sync.OnceValue(installModules)}
	s.python = sync.OnceValues(func() (string, error) { return installPython(s.dir) })
	if s.dir, err = os.MkdirTemp("", "weir-bench-audit-"); err != nil {
		return nil, err
	}
	if s.weir, err = weirserve.Build(s.dir); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func installModules() error {
	if _, err := os.Stat(filepath.Join(modules, "node_modules")); err == nil {
		return nil
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
	cmd.Dir = modules
	return runQuietly(cmd)
}

func installPython(dir string) (interpreter string, err error) {
	environment := filepath.Join(dir, "python")
	if err := runQuietly(exec.Command("python3", "-m", "venv", environment)); err != nil {
		return "", err
	}
	interpreter = filepath.Join(environment, "bin", "python")
	return interpreter, runQuietly(exec.Command(interpreter, "-m", "pip", "install", "--quiet",
		"--disable-pip-version-check", "-r", requirements))
}

func (s *site) close() { os.RemoveAll(s.dir) }

func runQuietly(cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
	}
	return nil
}

func (s *site) startWeir() (url string, stop func(), err error) {
	file := filepath.Join(s.dir, "weir.yaml")
	text := "version: 1\npolicies:\n  web: {limit: 20 per second per ip}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	server, err := weirserve.Start(s.weir, "--policies", file)
	if err != nil {
		return "", nil, err
	}
	return "http://" + server.HTTP + "/gate/web?ip=192.0.2.1", server.Kill, nil
}

const nginxConf = `daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/error.log;
events {}
http {
    access_log off;
    client_body_temp_path DIR/temp;
    proxy_temp_path DIR/temp;
    fastcgi_temp_path DIR/temp;
    uwsgi_temp_path DIR/temp;
    scgi_temp_path DIR/temp;
    limit_req_zone $binary_remote_addr zone=web:1m rate=20r/s;
    server {
        listen ADDRESS;
        root DIR;
        location / { limit_req zone=web burst=19 nodelay; }
    }
}
`

func (s *site) startNginx() (url string, stop func(), err error) {
	dir := filepath.Join(s.dir, "nginx")
	address, err := freeAddress()
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", nil, err
	}
	conf := strings.NewReplacer("DIR", dir, "ADDRESS", address).Replace(nginxConf)
	for name, text := range map[string]string{"nginx.conf": conf, "index.html": "hello\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", nil, err
		}
	}
	cmd := exec.Command(nginx(), "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	for range 500 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return "http://" + address + "/", stop, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("nginx does not listen on %s", address)
}

// nginx returns the program. Debian's place of servers is not in each PATH.
func nginx() string {
	if path, err := exec.LookPath("nginx"); err == nil {
		return path
	}
	return "/usr/sbin/nginx"
}

func (s *site) nginxVersion() string {
	out, err := exec.Command(nginx(), "-v").CombinedOutput()
	if err != nil {
		return "unknown"
	}
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), "nginx/")
	return version
}

// freeAddress returns an address on which nothing listens now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func startHTTPRate(*site) (url string, stop func(), err error) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	limited := httprate.LimitBy(limit, windowMS*time.Millisecond, httprate.Key("*"))
	server := httptest.NewServer(limited(hello))
	return server.URL, server.Close, nil
}

func httprateVersion() string {
	p, err := peers.Named("httprate")
	if err != nil {
		return "unknown"
	}
	return p.Version()
}

func nodeService(name, settings string) service {
	return service{
		name:     name,
		settings: settings,
		version: func(*site) string {
			var m struct {
				Version string `json:"version"`
			}
			text, err := os.ReadFile(filepath.Join(modules, "node_modules", name, "package.json"))
			if err != nil || json.Unmarshal(text, &m) != nil {
				return "unknown"
			}
			return m.Version
		},
		start: func(s *site) (url string, stop func(), err error) {
			where, err := filepath.Abs(modules)
			if err == nil {
				err = s.modules()
			}
			if err != nil {
				return "", nil, err
			}
			cmd := exec.Command("node", "audit/app.mjs", name)
			cmd.Env = append(os.Environ(), "NODE_ENV=production", "MODULES="+where)
			return startApp(cmd)
		},
	}
}

var flaskVersion = regexp.MustCompile(`(?m)^Flask-Limiter==(\S+)$`)

func flaskService(strategy, settings string) service {
	return service{
		name:     "Flask-Limiter, " + strategy,
		settings: settings,
		version: func(*site) string {
			text, err := os.ReadFile(requirements)
			found := flaskVersion.FindSubmatch(text)
			if err != nil || found == nil {
				return "unknown"
			}
			return string(found[1])
		},
		start: func(s *site) (url string, stop func(), err error) {
			python, err := s.python()
			if err != nil {
				return "", nil, err
			}
			return startApp(exec.Command(python, "audit/app.py", strategy))
		},
	}
}

// startApp starts an application that prints its port.
func startApp(cmd *exec.Cmd) (url string, stop func(), err error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%v prints no port: %w", cmd, err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port) + "/", stop, nil
}
