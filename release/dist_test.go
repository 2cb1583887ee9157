//go:build dist

// The tests of a whole release, which `make test-dist` runs: six builds, twice, and root's rights.
// A tag leaves them out of `make test`, which would take a quarter of an hour longer.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// have declares programs that only these tests need, by their packages of Debian.
func have(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		err := exec.Command(name, "--version").Run()
		needs.Have(t, name, err == nil, "install it with apt-get install "+name)
	}
	needs.Have(t, "root", os.Getuid() == 0, "run make test-dist as root on Linux")
}

// command runs a program and returns its output, or fails the test.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestDist builds a release in two clones, and tries its files.
func TestDist(t *testing.T) {
	repo := repository(t)
	key := filepath.Join(t.TempDir(), "key")
	private := newKey(t)
	text, err := private.MarshalText()
	must.Do(t, err)
	must.Do(t, os.WriteFile(key, text, 0o600))
	var dists, clones []string
	for _, name := range []string{"a", "another/directory"} {
		clone := filepath.Join(t.TempDir(), name)
		command(t, "git", "clone", "--quiet", "--shared", repo, clone)
		clones = append(clones, clone)
	}
	for _, clone := range clones {
		out := filepath.Join(clone, "dist")
		must.Do(t, run(t.Output(), []string{"dist", "-version", testVersion, "-repo", clone, "-key", key, "-out", out}))
		dists = append(dists, out)
	}
	wantEqual(t, dists[0], dists[1])
	dist := dists[0]
	entries, err := os.ReadDir(dist)
	must.Do(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must.Do(t, err)
		t.Logf("%10d  %s", info.Size(), e.Name())
	}
	t.Run("sums", func(t *testing.T) { tryInstall(t, dist) })
	t.Run("man", func(t *testing.T) { lintMan(t, dist) })
	t.Run("deb", func(t *testing.T) { tryDeb(t, dist) })
	t.Run("lintian", func(t *testing.T) { tryLintian(t, dist) })
	t.Run("rpm", func(t *testing.T) { tryRPM(t, dist) })
	t.Run("image", func(t *testing.T) { tryImage(t, dist) })
	t.Run("chart", func(t *testing.T) { tryChart(t, dist) })
	t.Run("first denial", func(t *testing.T) { tryFirstDenial(t, dist, repo) })
	t.Run("modules", func(t *testing.T) { tryModules(t, clones[0]) })
}

// tryInstall installs from the directory, and gets a denial.
func tryInstall(t *testing.T, dist string) {
	needs.Program(t, "minisign")
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", sumsName)
	cmd.Dir = dist
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	bin := t.TempDir()
	install := exec.Command("sh", filepath.Join(dist, "install.sh"))
	install.Env = append(os.Environ(), "WEIR_DIST="+dist, "WEIR_BIN="+bin)
	out, err := install.CombinedOutput()
	if err != nil || strings.Contains(string(out), "not checked") || !strings.Contains(string(out), "weir "+testVersion+" ") {
		t.Errorf("install.sh: %v\n%s", err, out)
	}
	_, hint, _ := strings.Cut(string(out), "\ntry a denial: ")
	if out, err := exec.Command("sh", "-c", hint).CombinedOutput(); !strings.Contains(string(out), "denied") {
		t.Errorf("%q: %v, want a denial\n%s", hint, err, out)
	}
}

// lintMan lets a formatter read each page of the manual.
func lintMan(t *testing.T, dist string) {
	have(t, "groff")
	dir := t.TempDir()
	command(t, "tar", "-xzf", filepath.Join(dist, "weir_0.1.0_linux_amd64.tar.gz"), "-C", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "*/man/man1/*.1"))
	must.Do(t, err)
	if len(pages) < 10 {
		t.Errorf("there are only the pages %q", pages)
	}
	for _, page := range pages {
		cmd := exec.Command("groff", "-man", "-Tutf8", "-ww", "-rF0", "-z", page)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(page), err, out)
		}
	}
}

// A debian is a tree of Debian without an init process.
type debian struct {
	t    *testing.T
	root string
}

// run runs a program in the tree.
func (d *debian) run(args ...string) string {
	d.t.Helper()
	return command(d.t, "chroot", append([]string{d.root, "/usr/bin/env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}, args...)...)
}

// exists reports whether a file is in the tree.
func (d *debian) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(d.root, name))
	return err == nil
}

// install copies a file into the tree, and installs it there as a package.
func (d *debian) install(file string, command ...string) {
	d.t.Helper()
	name := "weir" + filepath.Ext(file)
	must.Do(d.t, os.WriteFile(filepath.Join(d.root, name), readFile(d.t, file), 0o644))
	d.run(append(command, "/"+name)...)
}

// start starts weir as the unit would, but on a free port.
func (d *debian) start() *program.Server {
	d.t.Helper()
	unit := string(readFile(d.t, filepath.Join(d.root, "usr/lib/systemd/system/weir.service")))
	_, line, _ := strings.Cut(unit, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	args := strings.Fields(strings.TrimSuffix(line, " $WEIR_FLAGS"))
	args = append([]string{"--userspec=weir:weir", d.root}, append(args, "--listen=127.0.0.1:0", "--linger=0")...)
	return program.Serve(d.t, exec.Command("chroot", args...))
}

// stop ends weir as systemd does.
func (d *debian) stop(s *program.Server) {
	d.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	s.Process.Signal(syscall.SIGTERM)
	if err := s.Wait(); err != nil {
		d.t.Errorf("%v\n%s", err, s.Output())
	}
}

// use takes a unit of the policy login, and returns what is left of 5.
func use(t *testing.T, s *program.Server) int {
	t.Helper()
	res, err := http.Post("http://"+s.Main+"/v1/check", "application/json", strings.NewReader(`{"policy":"login","key":{"user":"ann"}}`))
	must.Do(t, err)
	defer res.Body.Close()
	var answer struct{ Remaining *int }
	must.Do(t, json.NewDecoder(res.Body).Decode(&answer))
	if answer.Remaining == nil {
		t.Fatalf("status %d, no number is left", res.StatusCode)
	}
	return *answer.Remaining
}

// tryDeb installs, upgrades, removes and purges the package in a tree of Debian.
func tryDeb(t *testing.T, dist string) {
	have(t, "mmdebstrap")
	d := newDebian(t, "adduser")
	d.install(filepath.Join(dist, "weir_0.1.0_amd64.deb"), "dpkg", "--install")
	tryUpgrade(d, func() { // while the store is in use
		d.install(nextPackage(t, dist, "weir_0.1.1_amd64.deb"), "dpkg", "--install")
		if out := d.run("weir", "version"); !strings.Contains(d.run("dpkg", "--status", "weir"), "Version: 0.1.1\n") {
			t.Errorf("the package was not upgraded, %s", out)
		}
	})
	d.run("dpkg", "--remove", "weir")
	for _, name := range []string{"etc/weir/weir.yaml", "etc/weir/weir-serve.yaml", "var/lib/weir/store"} {
		if !d.exists(name) {
			t.Errorf("dpkg --remove removed %s", name)
		}
	}
	d.run("dpkg", "--purge", "weir")
	for _, name := range []string{"etc/weir", "var/lib/weir", "usr/bin/weir", "usr/lib/systemd/system/weir.service"} {
		if d.exists(name) {
			t.Errorf("dpkg --purge left %s", name)
		}
	}
}

// newDebian makes a tree with packages beside the essential ones.
func newDebian(t *testing.T, packages string) *debian {
	t.Helper()
	d := &debian{t, filepath.Join(t.TempDir(), "root")}
	command(t, "mmdebstrap", "--quiet", "--variant=essential", "--include="+packages, "bookworm", d.root)
	return d
}

// tryUpgrade runs the weir of a package, upgrades it meanwhile, and runs the new one: both have the
// same histories, and edited policies stay.
func tryUpgrade(d *debian, upgrade func()) {
	t := d.t
	t.Helper()
	if got := d.run("stat", "--format=%U:%G %a", "/var/lib/weir"); got != "weir:weir 700\n" {
		t.Errorf("the state directory is of %s", got)
	}
	first := d.start()
	if left := use(t, first); left != 4 {
		t.Fatalf("%d left of 5 after one use", left)
	}

	policies := filepath.Join(d.root, "etc/weir/weir.yaml")
	edited := string(readFile(t, policies)) + "# edited\n"
	must.Do(t, os.WriteFile(policies, []byte(edited), 0o644))
	upgrade()
	if left := use(t, first); left != 3 {
		t.Errorf("%d left of 5 in the weir that ran during the upgrade, want 3", left)
	}
	d.stop(first)
	second := d.start()
	if left := use(t, second); left != 2 {
		t.Errorf("%d left of 5 after the upgrade, want 2", left)
	}
	d.stop(second)
	if got := readFile(t, policies); string(got) != edited {
		t.Errorf("the upgrade changed the edited policies")
	}
}

// nextPackage returns a package of the next version with the same program.
func nextPackage(t *testing.T, dist, name string) string {
	t.Helper()
	s := checkout(t)
	s.version = "v0.1.1"
	command(t, "tar", "-xzf", filepath.Join(dist, "weir_0.1.0_linux_amd64.tar.gz"), "-C", s.temp)
	binary := filepath.Join(s.temp, "weir_0.1.0_linux_amd64", "weir")
	must.Do(t, writePackages(s, target{"linux", "amd64"}, binary, smallDocs(), s.temp))
	return filepath.Join(s.temp, name)
}

// tryLintian lets Debian's checker find no error.
func tryLintian(t *testing.T, dist string) {
	have(t, "lintian")
	for _, arch := range []string{"amd64", "arm64"} {
		deb := filepath.Join(dist, "weir_0.1.0_"+arch+".deb")
		cmd := exec.Command("lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", deb)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("lintian: %v", err)
		}
		t.Logf("%s", out)
	}
}

func tryRPM(t *testing.T, dist string) {
	have(t, "rpm")
	file := filepath.Join(dist, "weir-0.1.0-1.x86_64.rpm")
	query := func(what string) string {
		return command(t, "rpm", "--query", "--nosignature", what, "--package", file)
	}
	if got := query("--configfiles"); got != "/etc/weir/weir-serve.yaml\n/etc/weir/weir.yaml\n" {
		t.Errorf("the settings of the rpm are\n%s", got)
	}
	for _, name := range []string{"/usr/bin/weir\n", "/usr/lib/systemd/system/weir.service\n", "/var/lib/weir\n", "/usr/share/man/man1/weir.1.gz\n"} {
		if !strings.Contains(query("--list"), name) {
			t.Errorf("the rpm has no %s", name)
		}
	}
	if out := command(t, "rpm", "--checksig", "--nosignature", file); !strings.Contains(out, "digests OK") {
		t.Errorf("rpm --checksig: %s", out)
	}

	// Rpm itself installs it in a tree of Debian, whose packages are not in its database: so it
	// finds no shadow-utils, though the programs are there.
	d := newDebian(t, "rpm,passwd")
	d.install(file, "rpm", "--install", "--nodeps", "--nosignature")
	tryUpgrade(d, func() {
		d.install(nextPackage(t, dist, "weir-0.1.1-1.x86_64.rpm"), "rpm", "--upgrade", "--nodeps", "--nosignature")
		if out := d.run("rpm", "--query", "weir"); out != "weir-0.1.1-1.x86_64\n" {
			t.Errorf("the package was not upgraded, %s", out)
		}
	})
	d.run("rpm", "--erase", "weir")
	if !d.exists("etc/weir/weir.yaml.rpmsave") || !d.exists("var/lib/weir/store") || d.exists("usr/bin/weir") {
		t.Error("rpm --erase removed edited policies or histories, or left the program")
	}
}

// tryImage runs the image of this machine as its user on a root that nobody can write.
func tryImage(t *testing.T, dist string) {
	have(t, "unshare")
	index, err := layout.ImageIndexFromPath(filepath.Join(dist, "weir_0.1.0_oci"))
	must.Do(t, err)
	manifest, err := index.IndexManifest()
	must.Do(t, err)
	if n := len(manifest.Manifests); n != 2 {
		t.Fatalf("the index has %d images, want 2", n)
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		must.Do(t, err)
		layers, err := image.Layers()
		must.Do(t, err)
		layer := layers[0]
		size, err := layer.Size()
		must.Do(t, err)
		t.Logf("image of %s: %.1f MB compressed", m.Platform, float64(size)/1e6)
		if size > 15e6 {
			t.Errorf("image of %s: %d bytes compressed, want at most 15 MB", m.Platform, size)
		}
		if m.Platform.Architecture == "amd64" {
			runImage(t, image, layer)
		}
	}
}

// layerOf returns the file of the one layer of the image for this machine.
func layerOf(t *testing.T, dist string) string {
	t.Helper()
	oci := filepath.Join(dist, "weir_0.1.0_oci")
	index, err := layout.ImageIndexFromPath(oci)
	must.Do(t, err)
	manifest, err := index.IndexManifest()
	must.Do(t, err)
	image, err := index.Image(manifest.Manifests[0].Digest)
	must.Do(t, err)
	layers, err := image.Layers()
	must.Do(t, err)
	digest, err := layers[0].Digest()
	must.Do(t, err)
	return filepath.Join(oci, "blobs", digest.Algorithm, digest.Hex)
}

func runImage(t *testing.T, image v1.Image, layer v1.Layer) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	must.Do(t, os.Mkdir(root, 0o755))
	files, err := layer.Uncompressed()
	must.Do(t, err)
	defer files.Close()
	tar := exec.Command("tar", "-x", "--no-same-permissions", "-C", root)
	tar.Stdin = files
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	for name, text := range map[string]string{
		"etc/weir/weir.yaml":     "version: 1\npolicies: {login: {limit: 5 per hour per user}}\n",
		"run/secrets/weir-token": "the-token-of-the-callers",
	} { // as volumes of the container
		file := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
	file, err := image.ConfigFile()
	must.Do(t, err)
	config := file.Config
	args := slices.Concat(config.Entrypoint, config.Cmd, []string{"--admin-listen", "127.0.0.1:0", "--linger=0"})
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "0.0.0.0:7070", "127.0.0.1:0")
	}
	const confine = `mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/x" 2>/dev/null && exec chroot --userspec="$@"`
	shell := []string{"--mount", "sh", "-c", confine, root, config.User, root}
	s := program.Serve(t, exec.Command("unshare", append(shell, args...)...))
	request, err := http.NewRequest("POST", "http://"+s.Main+"/v1/check", strings.NewReader(`{"policy":"login","key":{"user":"ann"}}`))
	must.Do(t, err)
	request.Header.Set("Authorization", "Bearer the-token-of-the-callers")
	res, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 200 {
		t.Errorf("the image answers %d, %s", res.StatusCode, body)
	}
}

// tryModules tags a clone, and installs its modules from a proxy as their users do.
func tryModules(t *testing.T, clone string) {
	tag := func() error { return run(t.Output(), []string{"tag", "-version", testVersion, "-repo", clone}) }
	must.Do(t, tag())
	must.Do(t, tag()) // the same tags of the same commit
	s := &source{version: testVersion, temp: t.TempDir(), dir: clone}
	for _, dir := range released {
		mod, err := git(clone, "show", s.tagName(dir)+":"+strings.TrimPrefix(dir+"/go.mod", "./"))
		must.Do(t, err)
		if _, err := s.serve(dir, s.tagName(dir), []byte(mod+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	env, err := s.goEnv()
	must.Do(t, err)
	env = append(env, "GONOSUMDB=*", "GOBIN="+filepath.Join(s.temp, "bin"), "GOFLAGS=-mod=mod -modcacherw -trimpath")
	if _, err := output(s.temp, env, goCommand, "install", modulePath("cmd/weir")+"@"+testVersion); err != nil {
		t.Fatal(err)
	}
	if out := command(t, filepath.Join(s.temp, "bin/weir"), "version"); !strings.HasPrefix(out, "weir "+testVersion+" ") {
		t.Errorf("the installed weir prints %s", out)
	}
	user := filepath.Join(s.temp, "user")
	must.Do(t, os.Mkdir(user, 0o755))
	if _, err := output(user, env, goCommand, "mod", "init", "example.com/user"); err != nil {
		t.Fatal(err)
	}
	imports := ""
	for _, dir := range released[:len(released)-1] {
		if _, err := output(user, env, goCommand, "get", modulePath(dir)+"@"+testVersion); err != nil {
			t.Fatal(err)
		}
		imports += fmt.Sprintf("import _ %q\n", modulePath(dir))
	}
	must.Do(t, os.WriteFile(filepath.Join(user, "main.go"), []byte("package main\n"+imports+"func main() {}\n"), 0o644))
	if _, err := output(user, env, goCommand, "build", "-o", os.DevNull, "."); err != nil {
		t.Fatal(err)
	}
	who := []string{"-c", "user.name=t", "-c", "user.email=t@example.com"}
	command(t, "git", append(append([]string{"-C", clone}, who...), "commit", "--quiet", "--allow-empty", "-m", "more")...)
	if err := tag(); err == nil || !strings.Contains(err.Error(), "no tag was made") {
		t.Errorf("tags of another commit: %v", err)
	}
}

// TestDistEncryptedKey: the password of a key is in the environment. The password costs a gigabyte
// of memory, as minisign wants it.
func TestDistEncryptedKey(t *testing.T) {
	key := newKey(t)
	file := filepath.Join(t.TempDir(), "minisign.key")
	encrypted, err := minisign.EncryptKey("secret", key.PrivateKey)
	must.Do(t, err)
	must.Do(t, os.WriteFile(file, encrypted, 0o600))
	t.Setenv("MINISIGN_PASSWORD", "wrong")
	if _, err := readKey(file); err == nil || !strings.Contains(err.Error(), "is $MINISIGN_PASSWORD its password?") {
		t.Errorf("a wrong password: %v", err)
	}
	t.Setenv("MINISIGN_PASSWORD", "secret")
	read, err := readKey(file)
	if err != nil || read.throwAway || !read.Equal(key.PrivateKey) {
		t.Errorf("the key is another one, or %v", err)
	}
}
