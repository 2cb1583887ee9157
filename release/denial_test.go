//go:build dist

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// denialTime bounds the time from a bare machine to the first denial.
const denialTime = time.Minute

// firstDenial makes a decision of the demonstration that is a denial.
var firstDenial = []string{"check", "demo", "user=ann", "-n", "11"}

// tryFirstDenial measures the time from a bare machine to the first denial, each way in two commands.
// The files are there already. A container engine loads the image and runs it; here tar and chroot
// do the same. A checkout prints its first denial from an example, because the whole program takes
// minutes to compile: the clients of Redis and gRPC are large.
func tryFirstDenial(t *testing.T, dist, repo string) {
	have(t, "mmdebstrap")
	d := newDebian(t, "adduser")
	must.Do(t, os.CopyFS(filepath.Join(d.root, "dist"), os.DirFS(dist)))
	chroot := func(args ...string) *exec.Cmd {
		return exec.Command("chroot", append([]string{d.root}, args...)...)
	}
	image := filepath.Join(t.TempDir(), "image")
	must.Do(t, os.Mkdir(image, 0o755))
	clone := filepath.Join(t.TempDir(), "weir")
	run := exec.Command(goCommand, "run", "./examples/hello")
	run.Dir = clone
	run.Env = append(os.Environ(), "GOCACHE="+t.TempDir(), "GOMODCACHE="+t.TempDir(), "GOPROXY=off", "GOFLAGS=")
	for _, way := range []struct {
		name            string
		install, decide *exec.Cmd
	}{
		{
			"archive",
			chroot("/usr/bin/env", "WEIR_DIST=/dist", "WEIR_BIN=/usr/local/bin", "sh", "/dist/install.sh"),
			chroot(append([]string{"/usr/local/bin/weir"}, firstDenial...)...),
		},
		{
			"deb",
			chroot("dpkg", "--install", "/dist/weir_0.1.0_amd64.deb"),
			chroot(append([]string{"/usr/bin/weir"}, firstDenial...)...),
		},
		{
			"image",
			exec.Command("tar", "-xf", layerOf(t, dist), "-C", image),
			exec.Command("chroot", append([]string{"--userspec=65532:65532", image, "/weir"}, firstDenial...)...),
		},
		{"checkout", exec.Command("git", "clone", "--quiet", "--shared", repo, clone), run},
	} {
		begun := time.Now()
		if out, err := way.install.CombinedOutput(); err != nil {
			t.Errorf("%s: %s: %v\n%s", way.name, way.install, err, out)
			continue
		}
		installed := time.Now()
		out, _ := way.decide.CombinedOutput()
		took := time.Since(begun)
		if !strings.Contains(string(out), "denied") {
			t.Errorf("%s: %s prints no denial\n%s", way.name, way.decide, out)
		}
		state := way.decide.ProcessState
		processors := state.UserTime() + state.SystemTime()
		t.Logf("first denial by %s: %.1f s (installation %.1f s, then %.0f s of processors)\n%s", way.name,
			took.Seconds(), installed.Sub(begun).Seconds(), processors.Seconds(), out)
		if way.decide == run {
			took = processors // others that compile at the same time do not count
		}
		if took > denialTime {
			t.Errorf("%s takes %v, want at most %v", way.name, took, denialTime)
		}
	}
}
