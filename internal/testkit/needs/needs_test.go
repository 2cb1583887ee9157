package needs

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestDeclared is the body of a child process, which declares one need.
func TestDeclared(t *testing.T) {
	switch os.Getenv("WEIR_TEST_NEED") {
	case "":
		t.Log("see TestMissingThingsAreNamed")
	case "time":
		Time(t)
	case "program":
		if path := Program(t, "no-such-program", "sh"); !strings.HasSuffix(path, "/sh") {
			t.Errorf("the alternative is at %q", path)
		}
	case "no program":
		Program(t, "no-such-program", "no-other-program")
	case "server":
		t.Log("at", Redis(t))
	case "thing":
		Have(t, "an ocean", false, "run the test at the coast")
	case "tree":
		AllModules(t)
	case "mount":
		Tmpfs(t, "1m")
	case "modules":
		Modules(t, "../../../cmd/weir/internal/front/resp/testdata/node")
	case "broken modules":
		Modules(t, t.TempDir())
	}
}

// declared runs TestDeclared and returns its output.
func declared(t *testing.T, need string, args []string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestDeclared$", "-test.v"}, args...)...)
	cmd.Env = append(append(os.Environ(), "WEIR_TEST_NEED="+need), env...)
	if need == "mount" && os.Getuid() == 0 && len(args) == 0 {
		const nobody = 65534
		cmd.Path, cmd.Dir = "/proc/self/exe", "/" // others may not read the path of the binary
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// TestMissingThingsAreNamed: a test whose need is missing is skipped, and the runner gets one
// sentence with the thing and the next step.
func TestMissingThingsAreNamed(t *testing.T) {
	for _, c := range []struct {
		need, missing string
	}{
		{"no program", "no-such-program is not installed; run `make tools`"},
		{"thing", "an ocean is missing; run the test at the coast"},
		{"tree", "the whole tree is missing; run `make test`, or set WEIR_TEST_WHOLE_TREE=true"},
		{"mount", "the right to mount a file system is missing (operation not permitted); run the test as root on Linux, in a container with CAP_SYS_ADMIN"},
	} {
		out := declared(t, c.need, nil, WholeTreeVariable+"=")
		if !strings.Contains(out, "=== ATTR  TestDeclared missing "+c.missing+"\n") || !strings.Contains(out, "--- SKIP: TestDeclared") {
			t.Errorf("%s: it printed\n%s\nwant a skip with %q", c.need, out, c.missing)
		}
	}
}

// TestServersOfTheEnvironment: the variable chooses the server, in PATH or in the cache, and one
// of another version is not taken for it.
func TestServersOfTheEnvironment(t *testing.T) {
	const other, seven = "Redis server v=70.0.1 sha=0", "Redis server v=7.0.99 sha=0"
	for _, c := range []struct{ server, inPath, inCache, want string }{
		{"redis-7.0", seven, "", "/bin/redis-server"},
		{"redis-7.0", other, seven, "/weir-tools/redis-7.0/redis-server"},
		{"redis-7.0", seven, seven, "/bin/redis-server"},
		{"redis-7.0", other, other, "missing redis-7.0 is not installed; run `make tools`"},
		{"redis-7.0", "", "", "missing redis-7.0 is not installed; run `make tools`"},
		{"valkey-8.1", seven, "", "missing valkey-8.1 is not installed; run `make tools`"},
		{"", other, seven, "/bin/redis-server"},
		{"redis-5.0", seven, "", "WEIR_TEST_SERVER=redis-5.0 is none of the servers [redis-7.0 redis-8.0 valkey-8.1]"},
	} {
		dir := t.TempDir()
		for file, prints := range map[string]string{"bin/redis-server": c.inPath, "cache/weir-tools/redis-7.0/redis-server": c.inCache} {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if prints == "" {
				continue
			}
			if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+prints+"'\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		out := declared(t, "server", nil, "PATH="+dir+"/bin", "XDG_CACHE_HOME="+dir+"/cache", ServerVariable+"="+c.server)
		if !strings.Contains(out, c.want+"\n") {
			t.Errorf("%+v: it printed\n%s", c, out)
		}
	}
}

// TestToolsInstallsTheServers: scripts/tools has the same servers.
func TestToolsInstallsTheServers(t *testing.T) {
	text, err := os.ReadFile("../../../scripts/tools")
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, m := range regexp.MustCompile(`(?m)^\w+_servers="(.*)"$`).FindAllStringSubmatch(string(text), -1) {
		names += m[1] + " "
	}
	if want := fmt.Sprint(Servers); "["+strings.TrimSpace(names)+"]" != want {
		t.Errorf("scripts/tools installs the servers %s, want %s", names, want)
	}
}

func TestPresentThingsRun(t *testing.T) {
	for need, attr := range map[string]string{"program": "no-such-program", "time": "time"} {
		out := declared(t, need, nil)
		if !strings.Contains(out, "=== ATTR  TestDeclared needs "+attr+"\n") || !strings.Contains(out, "--- PASS: TestDeclared") {
			t.Errorf("%s: it printed\n%s", need, out)
		}
	}
}

// TestShortLeavesOutNeeds: -short skips without a search for the thing.
func TestShortLeavesOutNeeds(t *testing.T) {
	for _, need := range []string{"time", "program", "no program", "mount", "modules"} {
		out := declared(t, need, []string{"-test.short"})
		if !strings.Contains(out, "--- SKIP: TestDeclared") || strings.Contains(out, "TestDeclared missing") {
			t.Errorf("%s: it printed\n%s", need, out)
		}
	}
}

// TestUnreachableRegistry: npm without its cache and its registry is a missing thing, and
// another failure of npm is a failure.
func TestUnreachableRegistry(t *testing.T) {
	Program(t, "npm")
	env := []string{
		"XDG_CACHE_HOME=" + t.TempDir(), "npm_config_cache=" + t.TempDir(),
		"npm_config_registry=http://127.0.0.1:1", "npm_config_fetch_retries=0", "npm_config_audit=false",
	}
	if out := declared(t, "modules", nil, env...); !strings.Contains(out, "TestDeclared missing the npm packages of ../../../cmd/weir/internal/front/resp/testdata/node are not in npm's cache") {
		t.Errorf("it printed\n%s", out)
	}
	if out := declared(t, "broken modules", nil, env...); !strings.Contains(out, "--- FAIL: TestDeclared") {
		t.Errorf("without package-lock.json it printed\n%s", out)
	}
}

// TestTmpfsIsBounded: a full file system is a full disk for a test.
func TestTmpfsIsBounded(t *testing.T) {
	dir := Tmpfs(t, "64k")
	if err := os.WriteFile(dir+"/file", make([]byte, 1<<20), 0o600); err == nil {
		t.Error("a file of 1 MiB fits into 64 KiB")
	}
}

// TestSkipsAreDeclared: no test of the tree skips by itself or looks for a program by itself.
// The runner would not know the missing thing.
func TestSkipsAreDeclared(t *testing.T) {
	own := regexp.MustCompile(`\b(t|tb|b|f)\.Skip(Now|f)?\(|exec\.LookPath\(`)
	checked := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testkit" || d.Name() == "node_modules") {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if checked++; err == nil && own.Match(text) {
			t.Errorf("%s has %s; declare it with package needs", path, own.Find(text))
		}
		return err
	})
	if err != nil || checked < 100 {
		t.Errorf("%d files read, %v", checked, err)
	}
}
