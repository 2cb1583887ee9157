package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestRunbookScripts runs the scripts of docs/runbook.md in the order of the page, beside a
// weir serve with tokens and a directory. The first script is the head of all others. The test
// replaces systemctl: a stop ends that weir serve, and a start does nothing.
func TestRunbookScripts(t *testing.T) {
	needs.Time(t)
	needs.Program(t, "curl")
	needs.Program(t, "openssl")
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	for name, text := range map[string]string{
		"weir.yaml":   "version: 1\npolicies:\n  search:\n    limit: 10 per minute per ip\n    keys: {ip: address}\n",
		"token":       strings.Repeat("t", 32) + "\n",
		"admin-token": strings.Repeat("a", 32) + "\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	p := startServe(t,
		"--policies", filepath.Join(dir, "weir.yaml"),
		"--store", "file:"+store,
		"--admin-listen", "127.0.0.1:0",
		"--token-file", filepath.Join(dir, "token"),
		"--admin-token-file", filepath.Join(dir, "admin-token"))

	scripts := markdown.Texts(readPages(t)["docs/runbook.md"], "sh")
	if len(scripts) < 10 {
		t.Fatalf("docs/runbook.md has %d scripts", len(scripts))
	}
	here := strings.NewReplacer("/etc/weir", dir, "http://127.0.0.1:7072", "http://"+p.Admin, "/var/lib/weir/store", store)
	head := here.Replace(scripts[0]) + "systemctl() { :; }\n"
	for _, script := range scripts[1:] {
		if strings.Contains(script, "systemctl stop weir") {
			p.terminate(t)
			p.ended(t)
		}
		out, err := exec.Command("bash", "-euo", "pipefail", "-c", head+script).CombinedOutput()
		if err != nil || strings.Contains(string(out), `"status":4`) {
			t.Errorf("%s\n%v\n%s", script, err, out)
		}
	}
	if p.ProcessState == nil {
		t.Error("docs/runbook.md never stops weir")
	}
}
