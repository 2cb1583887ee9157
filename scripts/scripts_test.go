// Package scripts has the commands behind the Makefile. Its tests run them with a
// stand-in for the go command, so that they need no network.
package scripts

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/txtar"
)

// run runs a script with a go command that is the given shell text, and returns the
// exit code and everything printed.
func run(t *testing.T, goCommand string, script string, args ...string) (code int, printed string) {
	t.Helper()
	fake := filepath.Join(t.TempDir(), "go")
	must.Do(t, os.WriteFile(fake, []byte("#!/bin/sh\n"+goCommand+"\n"), 0o700))
	var out bytes.Buffer
	if !filepath.IsAbs(script) {
		script = "./" + script
	}
	cmd := exec.Command(script, args...)
	cmd.Env = append(os.Environ(), "GO="+fake, "GOVULNDB=")
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// wantRun fails the test unless a run ends with an exit code and prints all texts.
func wantRun(t *testing.T, name string, code int, texts []string, goCommand, script string, args ...string) {
	t.Helper()
	got, printed := run(t, goCommand, script, args...)
	if got != code || slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(printed, text) }) {
		t.Errorf("%s: exit code %d, want %d; it printed\n%s\nwant %q in it", name, got, code, printed, texts)
	}
}

func TestVulnExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name, govulncheck string
		code              int
		prints            string
	}{
		{"none", `echo "No vulnerabilities found."`, 0, "No vulnerabilities"},
		{"found", `echo "Vulnerability #1: GO-2026-1"; echo "exit status 3" >&2; exit 1`, 3, "GO-2026-1"},
		{"database unreachable", `echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host' >&2; echo "exit status 1" >&2; exit 1`,
			4, "NOT CHECKED: the database https://vuln.go.dev cannot be reached"},
		{"another failure", `echo "main.go:1:1: expected 'package'" >&2; echo "exit status 1" >&2; exit 1`, 1, "expected 'package'"},
	} {
		wantRun(t, tc.name, tc.code, []string{tc.prints}, tc.govulncheck, "vuln")
	}
}

func TestVulnIsPinned(t *testing.T) {
	if _, printed := run(t, `echo "$2"`, "vuln"); !regexp.MustCompile(`@v\d+\.\d+\.\d+\n`).MatchString(printed) {
		t.Errorf("scripts/vuln runs %q, want an exact version", printed)
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestPinImages(t *testing.T) {
	for _, from := range []string{"golang:1.26-bookworm", "golang:1.26-bookworm@sha256:old"} {
		file := filepath.Join(t.TempDir(), "Dockerfile")
		before := "# FROM a comment\nFROM " + from + " AS build\nRUN make\n\nFROM scratch\nCOPY --from=build /weir /weir\n"
		must.Do(t, os.WriteFile(file, []byte(before), 0o600))
		code, printed := run(t, `[ "$3 $4" = "digest golang:1.26-bookworm" ] && echo `+digest, "pin-images", file)
		after, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(before, from, "golang:1.26-bookworm@"+digest, 1)
		if code != 0 || string(after) != want {
			t.Errorf("from %s: exit code %d, it printed %sthe file is now\n%s\nwant\n%s", from, code, printed, after, want)
		}

		code, printed = run(t, `echo "no such host" >&2; exit 1`, "pin-images", file)
		if now, err := os.ReadFile(file); code != 1 || !bytes.Equal(now, after) || !strings.Contains(printed, "is unchanged") {
			t.Errorf("without a registry: exit code %d, %v, it printed %sthe file is now\n%s", code, err, printed, now)
		}
	}
}

// TestFuzz runs stand-ins for three targets: one passes, one finds an input, one ends
// by the race of go.dev/issue/75804.
func TestFuzz(t *testing.T) {
	goCommand := func(outcome string) string {
		return `case "$*" in
*-list*) printf 'FuzzA\nFuzzB\nok\texample.com/p\t0.1s\nok\texample.com/q\t0.1s\n' ;;
*FuzzA*) echo "fuzz: elapsed: 1s, execs: 7 (7/sec)" ;;
*FuzzB*) ` + outcome + ` ;;
esac`
	}
	for _, tc := range []struct {
		name, outcome string
		code          int
		prints        []string
	}{
		{"passes", `echo "fuzz: elapsed: 1s, execs: 9 (9/sec)"`, 0, []string{"ok    example.com/p FuzzA execs: 7", "ok    example.com/p FuzzB execs: 9"}},
		{"finds an input", `printf '%s\n' "--- FAIL: FuzzB" "    Failing input written to testdata/fuzz/FuzzB/1"; exit 1`, 1, []string{"FAIL  example.com/p FuzzB", "testdata/fuzz/FuzzB/1", "ok    example.com/p FuzzA"}},
		{"loses the race", `printf '%s\n' "--- FAIL: FuzzB" "    context deadline exceeded" FAIL; exit 1`, 0, []string{"ok    example.com/p FuzzB (no failing input"}},
		{"fails before fuzzing", `echo "--- FAIL: FuzzB/seed#0"; exit 1`, 1, []string{"FAIL  example.com/p FuzzB", "seed#0"}},
	} {
		wantRun(t, tc.name, tc.code, tc.prints, goCommand(tc.outcome), "fuzz", "1s")
	}
	if code, _ := run(t, `echo "./a.go:1:1: syntax error" >&2; exit 1`, "fuzz", "1s"); code == 0 {
		t.Error("a build error ends scripts/fuzz with 0")
	}
}

// module returns the directory of a new module in git, that of testdata/module.txtar with the
// script.
func module(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("testdata/module.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range txtar.Parse(content).Files {
		edit(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	edit(t, filepath.Join(dir, "scripts", "x"), string(text))
	git(t, dir, "init", "-q", "-b", "main")
	commit(t, dir)
	return dir
}

// edit writes a file.
func edit(t *testing.T, name, content string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Do(t, os.WriteFile(name, []byte(content), 0o700))
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(needs.Program(t, "git"), append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "work")
}

// TestFuzzChanged: --changed runs the targets of packages that a change reaches.
func TestFuzzChanged(t *testing.T) {
	const goCommand = `case "$*" in
*-list*) shift 3; for p; do printf 'FuzzIt\nok\t%s\t0.1s\n' "$p"; done ;;
*-fuzz*) ;;
*) exec go "$@" ;;
esac`
	for _, tc := range []struct {
		name   string
		change func(dir string)
		want   string
	}{
		{"nothing", func(string) {}, ""},
		{"documents", func(dir string) { edit(t, dir+"/a/README.md", "a"); edit(t, dir+"/Makefile", "b") }, ""},
		{"a test", func(dir string) { edit(t, dir+"/a/more_test.go", "package a\n") }, "a"},
		{"data of a package", func(dir string) { edit(t, dir+"/c/testdata/fuzz/FuzzIt/1", "") }, "c"},
		{"a dependency", func(dir string) { edit(t, dir+"/a/a.go", "package a // changed\n") }, "ab"},
		{"go.mod", func(dir string) { edit(t, dir+"/go.mod", "module example.com/m\n\ngo 1.26.0\n") }, "abc"},
		{"the commit before", func(dir string) { edit(t, dir+"/c/c.go", "package c // changed\n"); commit(t, dir) }, "c"},
		{"two commits before", func(dir string) {
			edit(t, dir+"/c/c.go", "package c // changed\n")
			commit(t, dir)
			edit(t, dir+"/README.md", "changed")
			commit(t, dir)
		}, ""},
		{"the branch", func(dir string) {
			git(t, dir, "checkout", "-q", "-b", "work")
			edit(t, dir+"/c/c.go", "package c // changed\n")
			commit(t, dir)
			edit(t, dir+"/README.md", "changed")
			commit(t, dir)
		}, "c"},
		{"no commit before", func(dir string) {
			git(t, dir, "checkout", "-q", "--orphan", "new")
			commit(t, dir)
			git(t, dir, "branch", "-q", "-D", "main")
		}, "abc"},
	} {
		dir := module(t, "fuzz")
		edit(t, dir+"/README.md", "the commit before changes nothing that counts")
		commit(t, dir)
		tc.change(dir)
		code, printed := run(t, goCommand, filepath.Join(dir, "scripts", "x"), "--changed", "1s", "1")
		got := ""
		for _, m := range regexp.MustCompile(`ok    (?:example.com/m|\.)/(\w) `).FindAllStringSubmatch(printed, -1) {
			got += m[1]
		}
		if code != 0 || got != tc.want || got == "" && !strings.Contains(printed, "no package with a fuzz target has changed") {
			t.Errorf("%s: exit code %d, targets of %q, want %q; it printed\n%s", tc.name, code, got, tc.want, printed)
		}
	}
}

// TestFuzzBudget: the changed targets share a budget of time. A full run does not.
func TestFuzzBudget(t *testing.T) {
	goCommand := func(targets int) string {
		return `case "$*" in
*-list*) for i in $(seq ` + strconv.Itoa(targets) + `); do echo "Fuzz$i"; done; printf 'ok\texample.com/p\t0.1s\n' ;;
*-fuzz*) ;;
*) exec go "$@" ;;
esac`
	}
	dir := module(t, "fuzz")
	edit(t, dir+"/a/a.go", "package a // changed\n")
	commit(t, dir)
	script := filepath.Join(dir, "scripts", "x")
	for _, tc := range []struct {
		targets int
		budget  string
		args    []string
		want    string
	}{
		{2, "", []string{"--changed", "10s"}, "== fuzz 2 targets for 10s each"},
		{12, "", []string{"--changed", "10s"}, "== fuzz 12 targets for 10s each"},
		{29, "", []string{"--changed", "10s"}, "== fuzz 29 targets for 4s each"},
		{29, "", []string{"--changed", "10s", "1"}, "== fuzz 29 targets for 2s each"},
		{29, "100", []string{"--changed", "10s"}, "== fuzz 29 targets for 6s each"},
		{29, "3", []string{"--changed", "10s"}, "== fuzz 29 targets for 1s each"},
		{29, "3", []string{"10m"}, ""},
	} {
		t.Setenv("BUDGET", tc.budget)
		code, printed := run(t, goCommand(tc.targets), script, tc.args...)
		if code != 0 || !strings.HasPrefix(printed, tc.want) || strings.Count(printed, "ok    ") != tc.targets || tc.want == "" && strings.Contains(printed, "==") {
			t.Errorf("%d targets, budget %q, %q: exit code %d, it printed\n%s\nwant %q", tc.targets, tc.budget, tc.args, code, printed, tc.want)
		}
	}
}

// TestStressCountsFailures: a test that fails in two of four runs, and a package that ends
// without a failed test.
func TestStressCountsFailures(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	goCommand := `echo run >>` + count + `; n=$(wc -l <` + count + `)
case $n in
2 | 3) printf '%s\n' '--- FAIL: TestA (0.01s)' '    --- FAIL: TestA/sub (0.00s)' 'FAIL	example.com/p	0.1s' 'FAIL'; exit 1 ;;
4) printf '%s\n' 'panic: x' 'FAIL	example.com/q	0.1s' 'FAIL'; exit 1 ;;
esac`
	t.Setenv("RUNS", "4")
	t.Setenv("BURNERS", "1")
	code, printed := run(t, goCommand, "stress", "./p")
	if code != 1 || !strings.HasSuffix(printed, "failures in 4 runs beside 1 burners:\n      2 TestA/sub\n      2 TestA\n      1 example.com/q\n") {
		t.Errorf("exit code %d, it printed\n%s", code, printed)
	}
	code, printed = run(t, "", "stress", "./p")
	if code != 0 || !strings.HasSuffix(printed, "no failure in 4 runs beside 1 burners\n") {
		t.Errorf("without a failure: exit code %d, it printed\n%s", code, printed)
	}
	if code, printed = run(t, "", "stress"); code != 2 || !strings.HasPrefix(printed, "Usage: ") {
		t.Errorf("without a package: exit code %d, it printed\n%s", code, printed)
	}
}

// TestLintWithoutANetwork: a linter that cannot be had is left out, except in CI. Other
// failures of it are failures.
func TestLintWithoutANetwork(t *testing.T) {
	script := filepath.Join(module(t, "lint"), "scripts", "x")
	for _, tc := range []struct {
		name, goCommand, ci, args string
		code                      int
		prints                    string
	}{
		{"all is well", "", "true", "", 0, "vet and staticcheck ."},
		{"quick", `[ "$1" = vet ]`, "", "--quick", 0, "== vet ."},
		{"no network", `[ "$1" = vet ] || { echo "dial tcp: no such host"; exit 1; }`, "", "", 0, "staticcheck is not in the module cache"},
		{"no network in CI", `[ "$1" = vet ] || { echo "dial tcp: no such host"; exit 1; }`, "true", "", 1, "staticcheck is not in the module cache"},
		{"alone", `[ "$1 $2 $GOWORK" = "vet ./... off" ]`, "", "--alone", 0, "== vet .\n"},
		{"a finding", `[ "$3" != ./... ] || { echo "x.go:1: unused"; exit 1; }`, "", "", 1, "x.go:1: unused"},
		{"vet", `[ "$1" != vet ] || { echo "x.go:1: suspect"; exit 1; }`, "", "", 1, "x.go:1: suspect"},
		{"no build", `echo "x.go:1: undefined"; exit 1`, "", "", 1, "undefined"},
	} {
		t.Setenv("CI", tc.ci)
		wantRun(t, tc.name, tc.code, []string{tc.prints}, tc.goCommand, script, strings.Fields(tc.args)...)
	}
}

// TestToolsWithoutRights: the missing packages are named before anything is installed, and again
// with the reason if they are not.
func TestToolsWithoutRights(t *testing.T) {
	for reason, commands := range map[string]map[string]string{
		"there is no apt-get": {"id": "echo 0"},
		"this user is not root, and sudo is missing or asks for a password; run make tools": {"apt-get": "exit 0", "id": "echo 1000", "sudo": `[ "$1" != -n ]`},
		"apt-get install failed": {"apt-get": `[ "$1" = update ]`, "id": "echo 0"},
	} {
		bin := t.TempDir()
		for name, text := range commands {
			edit(t, filepath.Join(bin, name), "#!/bin/sh\n"+text+"\n")
		}
		for _, name := range []string{"bash", "sh", "env", "tr", "true"} {
			must.Do(t, os.Symlink(needs.Program(t, name), filepath.Join(bin, name)))
		}
		cmd := exec.Command(filepath.Join(bin, "bash"), "tools", "--no-password")
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		announced := strings.HasPrefix(string(out), "scripts/tools: installs packages of this system: gcc ")
		refused := strings.Contains(string(out), "scripts/tools: not installed, because "+reason+": gcc ")
		if err == nil || !announced || !refused {
			t.Errorf("%s: %v, it printed\n%s", reason, err, out)
		}
	}
}

// TestToolsFetchesServers: a server that PATH lacks, or has in another version, comes from the
// release of Debian that has it and runs with the C library of its tree. One that cannot be
// fetched is named. Each command is a stand-in, so that the test needs no network.
func TestToolsFetchesServers(t *testing.T) {
	const fetch = `for tree; do :; done
[ "$FETCH" = no ] && exit 1
lib=$tree/usr/lib/x86_64-linux-gnu
mkdir -p "$tree/usr/bin" "$lib"
printf '#!/bin/sh\nshift 2\nexec sh "$@"\n' >"$lib/ld-linux-x86-64.so.2"
chmod +x "$lib/ld-linux-x86-64.so.2"
echo 'echo Redis server v=8.0.9 sha=0' >"$tree/usr/bin/redis-server"
echo 'echo Valkey server v=8.1.9 sha=0' >"$tree/usr/bin/valkey-server"
`
	bin, cache := t.TempDir(), t.TempDir()
	for _, name := range []string{"bash", "sh", "env", "tr", "true", "basename", "chmod", "find", "head", "mkdir", "mktemp", "mv", "rm"} {
		must.Do(t, os.Symlink(needs.Program(t, name), filepath.Join(bin, name)))
	}
	edit(t, filepath.Join(bin, "id"), "#!/bin/sh\necho 0\n")
	edit(t, filepath.Join(bin, "chown"), "#!/bin/sh\n")
	edit(t, filepath.Join(bin, "redis-server"), "#!/bin/sh\necho Redis server v=7.0.99 sha=0\n")
	edit(t, filepath.Join(bin, "mmdebstrap"), "#!/bin/sh\necho fetch \"$@\"\n"+fetch)
	runTools := func(fetches string) string {
		cmd := exec.Command(filepath.Join(bin, "bash"), "tools")
		cmd.Env = []string{"PATH=" + bin, "XDG_CACHE_HOME=" + cache, "FETCH=" + fetches}
		out, _ := cmd.CombinedOutput() // other tools are missing
		return string(out)
	}
	const missing = "did not fetch it or it does not run here: "
	if out := runTools("no"); !strings.Contains(out, missing+"redis-8.0;") || !strings.Contains(out, missing+"valkey-8.1;") || strings.Contains(out, missing+"redis-7.0") {
		t.Errorf("without Debian it printed\n%s\nwant the two servers of trixie", out)
	}
	if out := runTools("yes"); !strings.Contains(out, "--include=redis-server,valkey-server trixie ") || strings.Contains(out, " bookworm ") || strings.Contains(out, missing) {
		t.Errorf("it printed\n%s\nwant the servers of trixie, and no error", out)
	}
	for server, version := range map[string]string{"redis-8.0/redis-server": "v=8.0.9", "valkey-8.1/valkey-server": "v=8.1.9"} {
		cmd := exec.Command(filepath.Join(cache, "weir-tools", server), "--version")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), version) {
			t.Errorf("%s printed %s, %v", server, out, err)
		}
	}
	if out := runTools("no"); strings.Contains(out, "fetch ") {
		t.Errorf("with all servers it printed\n%s\nwant nothing fetched", out)
	}
}

// TestNightlyTargetsExist: each job of the nightly workflow runs targets of the Makefile, which
// make help lists.
func TestNightlyTargetsExist(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	makefile := read("Makefile")
	target := regexp.MustCompile(`command: make (?:tools )?([a-z-]+)`)
	jobs := target.FindAllStringSubmatch(read(".github/workflows/nightly.yml"), -1)
	for _, job := range jobs {
		if !regexp.MustCompile("(?m)^" + job[1] + ": .*## .").MatchString(makefile) {
			t.Errorf("make help lists no target %s", job[1])
		}
	}
	if len(jobs) < 10 {
		t.Errorf("the workflow has %d jobs", len(jobs))
	}
}
