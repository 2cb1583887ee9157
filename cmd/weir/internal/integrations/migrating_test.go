//go:build linux

package integrations

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/program"
)

// limitReq is a configuration of nginx with limit_req, from which docs/migrating.md leads.
const limitReq = `limit_req_zone $binary_remote_addr zone=search:10m rate=20r/m;

server {
    listen 80;
    location / {
        limit_req zone=search burst=19 nodelay;
        limit_req_status 429;
        proxy_pass http://127.0.0.1:8080;
    }
}
`

// TestMigratingFromLimitReq runs limitReq, and then the commands of docs/migrating.md that replace it.
func TestMigratingFromLimitReq(t *testing.T) {
	policy, commands := migratingBlock(t, "yaml"), migratingBlock(t, "sh")

	t.Run("limit_req", func(t *testing.T) {
		t.Parallel()
		s, app := bareStand(t), newApp(t)
		// A second in place of a minute: the test sees how soon the 21st request passes.
		s.write("weir.conf", strings.NewReplacer("rate=20r/m", "rate=20r/s", "listen 80", "listen "+s.options.Listen,
			"127.0.0.1:8080", app.addr()).Replace(limitReq))
		startNginx(s)
		s.await("tcp", s.options.Listen)
		for range 20 { // a stall of this machine may fill a second
			begun, passed := time.Now(), 0
			for passed <= 20 {
				if reply := s.get("/"); reply.status == http.StatusOK {
					passed++
				} else if reply.status != http.StatusTooManyRequests {
					t.Fatalf("nginx answers %d", reply.status)
				}
			}
			if took := time.Since(begun); took < time.Second {
				t.Logf("nginx: %d in %v at a limit of 20 a second", passed, took)
				return
			}
		}
		t.Error("nginx never lets more than 20 pass in a second")
	})

	t.Run("weir", func(t *testing.T) {
		t.Parallel()
		s, app := bareStand(t), newApp(t)
		s.write("weir.yaml", policy)
		serve, snippet, _ := strings.Cut(commands, "\n")
		weir := program.Path(t)
		s.run("env", append([]string{"-u", "WEIR_GATE_SECRET", weir}, strings.Fields(serve + " --listen " + s.options.Weir)[1:]...)...)
		snippet = strings.NewReplacer("weir snippet", weir+" snippet --weir "+s.options.Weir+" --listen "+s.options.Listen+" --timeout 10s",
			"127.0.0.1:8080", app.addr(), "/etc/nginx/conf.d/weir.conf", "weir.conf").Replace(snippet)
		cmd := exec.Command("sh", "-ec", snippet)
		cmd.Dir = s.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", snippet, err, out)
		}
		startNginx(s)
		s.await("tcp", s.options.Weir)
		s.await("tcp", s.options.Listen)
		for i := range 25 {
			want := http.StatusOK
			if i >= 20 {
				want = http.StatusTooManyRequests
			}
			if reply := s.get("/"); reply.status != want {
				t.Errorf("request %d of 25: status %d, want %d", i+1, reply.status, want)
			}
		}
	})
}

// migratingBlock returns the block of a language in the page's section about nginx.
func migratingBlock(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../../../..", "docs", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## nginx limit_req\n")
	section, _, _ = strings.Cut(section, "\n## ")
	m := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindStringSubmatch(section)
	if m == nil {
		t.Fatalf("docs/migrating.md has no block of %s about nginx", language)
	}
	return m[1]
}
