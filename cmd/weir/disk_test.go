package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestFullDiskFollowsThePolicy: while the disk of --store file: is full every front answers
// by the policy's mode, and probes report it. Afterwards weir recovers by itself.
func TestFullDiskFollowsThePolicy(t *testing.T) {
	// The file system is smaller than the space for which a segment is allocated ahead, so
	// that the first write to the full disk fails.
	disk := needs.Tmpfs(t, "512k")
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "file:"+filepath.Join(disk, "store")+"?sync=always")
	f.await(t, "before", healthyAnswers, 1)
	filler := must.Get(os.Create(filepath.Join(disk, "filler")))(t)
	defer filler.Close()
	for err := error(nil); err == nil; {
		_, err = filler.Write(make([]byte, 4096))
	}
	f.await(t, "full", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, 0)
	must.Do(t, os.Remove(filler.Name()))
	must.Do(t, filler.Truncate(0))
	f.await(t, "over", healthyAnswers, 1)
}

// TestFullDiskAtTheEnd: weir serve exits with 3 and the reason if its store could not be closed.
func TestFullDiskAtTheEnd(t *testing.T) {
	disk := needs.Tmpfs(t, "512k")
	store := filepath.Join(disk, "store")
	args := []string{"--policies", writePolicies(t, "version: 1\npolicies: {jobs: {limit: 10 per day per user}}\n"), "--store", "file:" + store}
	p := startServe(t, args...)
	full := make([]byte, 512<<10)
	if err := os.WriteFile(filepath.Join(disk, "filler"), full, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
	}
	for i := range 100 { // more than fit into the page that the segment has
		body := fmt.Sprintf(`{"policy": "jobs", "key": {"user": "%0100d"}}`, i)
		r := must.Get(http.Post("http://"+p.addr+"/v1/check", "application/json", strings.NewReader(body)))(t)
		r.Body.Close()
	}
	p.terminate(t)
	<-p.Ended
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(p.Output(), "closing "+store+" failed") {
		t.Errorf("weir serve ended with %v, want exit code 3 and the reason; stderr:\n%s", err, p.Output())
	}
}
