package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// A fakeRelease is a directory with an archive for this machine and what proves it.
type fakeRelease struct {
	t            *testing.T
	dir, archive string
	key          signingKey
}

// newRelease makes a release whose program is a script.
func newRelease(t *testing.T, script string) *fakeRelease {
	t.Helper()
	r := &fakeRelease{t: t, dir: t.TempDir(), key: newKey(t)}
	must.Do(t, os.Chmod(r.dir, 0o755)) // the test without rights reads it
	folder := fmt.Sprintf("weir_0.1.0_%s_%s", runtime.GOOS, runtime.GOARCH)
	r.archive = filepath.Join(r.dir, folder+".tar.gz")
	var b bytes.Buffer
	must.Do(t, writeTarGz(&b, time.Unix(0, 0), []entry{{folder + "/weir", 0o755, []byte(script)}}))
	must.Do(t, os.WriteFile(r.archive, b.Bytes(), 0o644))
	must.Do(t, sign(checkout(t), r.key, r.dir))
	return r
}

// change changes the last byte of a file.
func (r *fakeRelease) change(name string) {
	r.t.Helper()
	data := readFile(r.t, name)
	data[len(data)-2] ^= 1
	must.Do(r.t, os.WriteFile(name, data, 0o644))
}

// sumUp writes SHA256SUMS for the files as they are now, without a signature.
func (r *fakeRelease) sumUp() {
	r.t.Helper()
	sums, err := checksums(r.dir)
	must.Do(r.t, err)
	must.Do(r.t, os.WriteFile(filepath.Join(r.dir, sumsName), sums, 0o644))
}

// install runs the release's install.sh and returns its output.
func (r *fakeRelease) install(env ...string) (bin, stdout, stderr string, err error) {
	r.t.Helper()
	bin = filepath.Join(r.t.TempDir(), "bin")
	cmd := exec.Command("/bin/sh", filepath.Join(r.dir, "install.sh"))
	cmd.Env = append(append(os.Environ(), "WEIR_DIST="+r.dir, "WEIR_BIN="+bin), env...)
	var out, errors strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	return bin, out.String(), errors.String(), err
}

// wantRefusal installs, and wants one sentence and no file.
func (r *fakeRelease) wantRefusal(want string, env ...string) {
	r.t.Helper()
	bin, _, stderr, err := r.install(env...)
	if err == nil || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "install.sh: ") {
		r.t.Errorf("%v, it printed %q, want one sentence with %q", err, stderr, want)
	}
	if _, err := os.Stat(bin); err == nil {
		r.t.Errorf("%s exists after %q", bin, stderr)
	}
}

// here is a program for this machine.
var here = fmt.Sprintf("#!/bin/sh\necho weir v0.1.0 %s/%s go1.26\n", runtime.GOOS, runtime.GOARCH)

func TestInstall(t *testing.T) {
	needs.Have(t, "a Unix system", runtime.GOOS != "windows", "run the test on Linux or macOS")
	r := newRelease(t, here)
	bin, stdout, stderr, err := r.install()
	if err != nil || stderr != "" || !strings.Contains(stdout, "weir v0.1.0 ") {
		t.Fatalf("%v, it printed %q and %q", err, stdout, stderr)
	}
	installed, err := os.ReadDir(bin)
	must.Do(t, err)
	if out, err := exec.Command(filepath.Join(bin, "weir")).Output(); err != nil || len(installed) != 1 {
		t.Errorf("%v, %s; %s has %v", err, out, bin, installed)
	}
}

// TestInstallFromURL fetches over HTTP, as from the page of a release.
func TestInstallFromURL(t *testing.T) {
	needs.Program(t, "curl", "wget")
	r := newRelease(t, here)
	server := httptest.NewServer(http.FileServer(http.Dir(r.dir)))
	defer server.Close()
	if _, stdout, stderr, err := r.install("WEIR_DIST=" + server.URL); err != nil || !strings.Contains(stdout, "weir v0.1.0 ") {
		t.Errorf("%v, it printed %q and %q", err, stdout, stderr)
	}
	r.change(r.archive)
	r.wantRefusal("does not have the checksum", "WEIR_DIST="+server.URL)
}

// TestInstallRefuses: a file that is not as it should be installs nothing.
func TestInstallRefuses(t *testing.T) {
	needs.Have(t, "a Unix system", runtime.GOOS != "windows", "run the test on Linux or macOS")
	r := newRelease(t, here)
	r.change(r.archive)
	r.wantRefusal("does not have the checksum in SHA256SUMS")

	r = newRelease(t, "#!/bin/sh\necho weir v0.1.0 plan9/mips go1.26\n")
	r.wantRefusal("is not for " + runtime.GOOS + "/" + runtime.GOARCH)
	r = newRelease(t, "\x7fELF of another machine")
	r.wantRefusal("does not run on this machine")

	r = newRelease(t, here)
	uname := filepath.Join(t.TempDir(), "uname")
	must.Do(t, os.WriteFile(uname, []byte("#!/bin/sh\n[ $1 = -s ] && echo Linux || echo riscv64\n"), 0o755))
	r.wantRefusal("there is no archive for the architecture riscv64", "PATH="+filepath.Dir(uname)+":"+os.Getenv("PATH"))

	must.Do(t, os.Remove(r.archive))
	r.wantRefusal(filepath.Base(r.archive) + " was not fetched from " + r.dir + ": cp: ")
	must.Do(t, os.WriteFile(filepath.Join(r.dir, sumsName), nil, 0o644))
	r.wantRefusal("lists no archive for", "WEIR_KEY=", "PATH="+withoutMinisign(t))
	must.Do(t, os.Remove(filepath.Join(r.dir, sumsName)))
	r.wantRefusal("SHA256SUMS was not fetched from " + r.dir + ": cp: ")
	r.wantRefusal("SHA256SUMS was not fetched from http://127.0.0.1:1: curl: ", "WEIR_DIST=http://127.0.0.1:1")
}

// TestInstallNamesMissingPrograms: without a program that it needs, nothing is fetched, and the
// sentence has its name.
func TestInstallNamesMissingPrograms(t *testing.T) {
	needs.Have(t, "a Unix system", runtime.GOOS != "windows", "run the test on Linux or macOS")
	r := newRelease(t, here)
	for _, name := range strings.Fields("uname dirname mktemp sed tr cut tar") {
		r.wantRefusal(name+" is not installed; install it", "PATH="+onlyPrograms(t, name))
	}
	r.wantRefusal("none of sha256sum shasum openssl is installed; install one", "PATH="+onlyPrograms(t, "sha256sum", "shasum"))
	r.wantRefusal("none of curl wget is installed; install one", "PATH="+onlyPrograms(t), "WEIR_DIST=https://127.0.0.1:1")
	r.wantRefusal("was not unpacked from "+filepath.Base(r.archive)+": ", "PATH="+onlyPrograms(t, "gzip"))
	r.wantRefusal("no directory can be made in /nowhere; set TMPDIR", "TMPDIR=/nowhere")
}

// withoutMinisign returns a directory with the programs that install.sh needs.
func withoutMinisign(t *testing.T) (dir string) {
	t.Helper()
	return onlyPrograms(t)
}

// onlyPrograms returns a directory with the programs that install.sh needs, but for some.
func onlyPrograms(t *testing.T, without ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range strings.Fields("uname dirname mktemp rm cp mv mkdir chmod sed cut tr tar gzip sh sha256sum shasum") {
		if slices.Contains(without, name) {
			continue
		}
		for _, place := range []string{"/bin", "/usr/bin"} {
			if _, err := os.Stat(filepath.Join(place, name)); err == nil {
				must.Do(t, os.Symlink(filepath.Join(place, name), filepath.Join(dir, name)))
				break
			}
		}
	}
	return dir
}

// TestInstallWithoutRights: a user who may not write a directory learns that before anything is
// fetched.
func TestInstallWithoutRights(t *testing.T) {
	needs.Have(t, "a Unix system", runtime.GOOS != "windows", "run the test on Linux or macOS")
	r := newRelease(t, here)
	for _, bin := range []string{"/usr/no-such-directory/bin", "/usr/bin", "/etc/passwd", "/etc/passwd/bin"} {
		cmd := exec.Command("/bin/sh", "-s")
		cmd.Stdin = bytes.NewReader(readFile(t, filepath.Join(r.dir, "install.sh")))
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "WEIR_DIST="+r.dir, "WEIR_BIN="+bin)
		if os.Getuid() == 0 {
			const nobody = 65534
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		out, err := cmd.CombinedOutput()
		want := "install.sh: " + bin + " cannot be written by this user; run this with sudo, or set WEIR_BIN=$HOME/.local/bin\n"
		if err == nil || string(out) != want {
			t.Errorf("%v, it printed %q, want %q", err, out, want)
		}
	}
}

// TestInstallChecksTheSignature: whoever changes an archive and SHA256SUMS lacks the key.
func TestInstallChecksTheSignature(t *testing.T) {
	needs.Program(t, "minisign")
	r := newRelease(t, here)
	if _, stdout, stderr, err := r.install(); err != nil || strings.Contains(stdout, "not checked") {
		t.Errorf("%v, it printed %q and %q", err, stdout, stderr)
	}
	other := newKey(t)
	r.wantRefusal("is not signed by the key", "WEIR_KEY="+other.public().String())
	sums := readFile(t, filepath.Join(r.dir, sumsName))
	forged := minisign.SignWithComments(other.PrivateKey, sums, "weir", "weir")
	must.Do(t, os.WriteFile(filepath.Join(r.dir, signatureName), forged, 0o644))
	r.wantRefusal("is not signed by the key")
	r = newRelease(t, here)
	r.change(filepath.Join(r.dir, throwAwayName)) // any file
	r.sumUp()
	r.wantRefusal("is not signed by the key")
	must.Do(t, os.Remove(filepath.Join(r.dir, signatureName)))
	r.wantRefusal("SHA256SUMS.minisig was not fetched from")
	_, stdout, _, err := newRelease(t, here).install("PATH=" + withoutMinisign(t))
	if err != nil || !strings.Contains(stdout, "the signature was not checked, because minisign is not installed") {
		t.Errorf("without minisign: %v, it printed %q", err, stdout)
	}
}
