// Package deploy has files that run weir serve elsewhere: units of systemd, an image, and
// a Helm chart. Its tests start weir with the flags in those files.
// docs/service.md explains the files.
package deploy

import (
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

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// testTimeout bounds each wait of a test.
const testTimeout = 20 * time.Second

// weir is a weir serve of its own.
type weir struct {
	*program.Server
	t           *testing.T
	main, admin string // host:port
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
				must.Do(t, os.WriteFile(own, []byte(text), 0o600))
				arg = strings.TrimSuffix(arg, path) + own
			}
		}
		if strings.HasPrefix(arg, "--store=file:") {
			state, _ := stateDirs.LoadOrStore(t.Name(), filepath.Join(t.TempDir(), "store"))
			arg = "--store=file:" + state.(string)
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
	w := &weir{Server: program.Serve(t, exec.Command(program.Path(t), all...)), t: t}
	w.main, w.admin = local(w.Main), local(w.Admin)
	return w
}

// stateDirs holds the directory of the histories of each test: the same for each weir.
var stateDirs sync.Map

// stop ends weir as systemd and Kubernetes do.
func (w *weir) stop() {
	w.t.Helper()
	http.DefaultClient.CloseIdleConnections() // weir waits a second for clients to leave
	w.Process.Signal(syscall.SIGTERM)
	if err := w.Wait(); err != nil {
		w.t.Errorf("%v:\n%s", err, w.Output())
	}
}

// local is an address as this machine reaches it.
func local(address string) string {
	_, port, _ := net.SplitHostPort(strings.TrimSpace(address))
	return "127.0.0.1:" + port
}

// get asks for a path and returns the answer.
func (w *weir) get(addr, path string, header http.Header) (status int, body []byte) {
	w.t.Helper()
	r, err := http.NewRequest("GET", "http://"+addr+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = header
	client := http.Client{Timeout: testTimeout}
	res, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, text
}

// gets requests paths and compares the status; 200 also means 204.
func (w *weir) gets(addr string, want int, header http.Header, paths ...string) {
	w.t.Helper()
	for _, path := range paths {
		if status, body := w.get(addr, path, header); status != want && (want != 200 || status != 204) {
			w.t.Errorf("%s: status %d, %s; want %d", path, status, body, want)
		}
	}
}
