// Package deploy has files that run weir serve elsewhere: a systemd unit, an image, and
// manifests for Kubernetes. Its tests start weir with the flags in those files.
// docs/service.md explains the files.
package deploy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/program"
)

// testTimeout bounds each wait of a test.
const testTimeout = 20 * time.Second

// weir is a weir serve of its own.
type weir struct {
	t           *testing.T
	cmd         *exec.Cmd
	main, admin string // host:port
	mu          sync.Mutex
	talk        strings.Builder
}

var anyAddress = regexp.MustCompile(`(0\.0\.0\.0|127\.0\.0\.1):\d+`)

// startWeir starts weir with arguments out of a file of this directory. The files
// they name are laid elsewhere, ports are free ones, histories are in memory or in
// stateDir, and the end does not linger; everything else is as it stands.
func startWeir(t *testing.T, args []string, files map[string]string) *weir {
	t.Helper()
	dir := t.TempDir()
	var all []string
	listens := false
	for _, arg := range args {
		for path, text := range files {
			if strings.HasSuffix(arg, path) {
				own := filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
				if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				arg = strings.TrimSuffix(arg, path) + own
			}
		}
		if strings.HasPrefix(arg, "--store=file:") {
			arg = "--store=file:" + stateDir(t)
		} else if strings.HasPrefix(arg, "--store=") {
			arg = "--store=memory"
		}
		listens = listens || strings.HasPrefix(arg, "--listen")
		all = append(all, anyAddress.ReplaceAllString(arg, "$1:0"))
	}
	if !listens {
		all = append(all, "--listen=127.0.0.1:0")
	}
	if !strings.Contains(strings.Join(all, " "), "--admin-listen") {
		all = append(all, "--admin-listen=127.0.0.1:0")
	}
	all = append(all, "--linger=0") // there is no load balancer to wait for
	cmd := exec.Command(program.Path(t), all...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	w := &weir{t: t, cmd: cmd}
	listening := make(chan struct{})
	go w.listen(stderr, listening)
	select {
	case <-listening:
	case <-time.After(testTimeout):
	}
	if w.main == "" || w.admin == "" {
		t.Fatalf("weir %q does not listen:\n%s", all, w.said())
	}
	return w
}

// stateDirs holds the directory of the histories of each test.
var stateDirs sync.Map

// stateDir returns the directory of the histories of a test: the same for each weir.
func stateDir(t *testing.T) string {
	dir, ok := stateDirs.Load(t.Name())
	if !ok {
		dir = filepath.Join(t.TempDir(), "store")
		stateDirs.Store(t.Name(), dir)
	}
	return dir.(string)
}

// stop ends weir as systemd and Kubernetes do.
func (w *weir) stop() {
	w.t.Helper()
	http.DefaultClient.CloseIdleConnections() // weir waits a second for clients to leave
	w.cmd.Process.Signal(syscall.SIGTERM)
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("%v:\n%s", err, w.said())
	}
}

// listen reads stderr of weir, and closes listening after the line with the address.
func (w *weir) listen(stderr io.Reader, listening chan struct{}) {
	tell := sync.OnceFunc(func() { close(listening) })
	defer tell()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		w.mu.Lock()
		w.talk.WriteString(line + "\n")
		w.mu.Unlock()
		switch what, url, _ := strings.Cut(line, "http://"); {
		case w.main == "" && strings.Contains(what, "listens on"):
			w.main = local(url)
		case w.admin == "" && strings.Contains(what, "operators"):
			w.admin = local(url)
			tell()
		}
	}
}

// local is an address as this machine reaches it.
func local(address string) string {
	_, port, _ := net.SplitHostPort(strings.TrimSpace(address))
	return "127.0.0.1:" + port
}

func (w *weir) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.talk.String()
}

// get asks for a path and returns the answer.
func (w *weir) get(addr, path string, header http.Header) (status int, body []byte) {
	w.t.Helper()
	r, err := http.NewRequest("GET", "http://"+addr+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	client := http.Client{Timeout: testTimeout}
	res, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, body
}
