package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

const testVersion = "v0.1.0"

// checkout returns a source whose files are those of this checkout, as they are.
func checkout(t *testing.T) *source {
	t.Helper()
	return &source{
		version: testVersion,
		commit:  strings.Repeat("0", 40),
		time:    time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		temp:    t.TempDir(),
		dir:     repository(t),
	}
}

// repository returns the root of this checkout.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	must.Do(t, err)
	return dir
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must.Do(t, err)
	return text
}

// newKey returns a throw-away key.
func newKey(t *testing.T) signingKey {
	t.Helper()
	key, err := readKey("")
	must.Do(t, err)
	return key
}

// TestRefusals: a release that would not be that of a commit is one sentence.
func TestRefusals(t *testing.T) {
	needs.Program(t, "git")
	repo := t.TempDir()
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--allow-empty", "-m", "first"},
	} {
		if _, err := git(repo, args...); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(name, text string) func() {
		return func() {
			file := filepath.Join(repo, name)
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, os.WriteFile(file, []byte(text), 0o644))
		}
	}
	commit := func() {
		if _, err := git(repo, "add", "--all"); err != nil {
			t.Fatal(err)
		}
		if _, err := git(repo, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "more"); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func() {}
	for _, c := range []struct {
		before  func()
		version string
		flags   []string
		want    string
	}{
		{nothing, "", nil, `"" is not a version of a release; write VERSION=v0.1.0`},
		{nothing, "0.1.0", nil, `"0.1.0" is not a version of a release`},
		{nothing, "v0.1", nil, "is not a version"},
		{nothing, "v0.1.0-rc.1", nil, "is not a version"},
		{nothing, "v2.0.0", nil, "is not a version"},
		{nothing, testVersion, []string{"-key", "no-such-key"}, "the key of minisign: open no-such-key"},
		{nothing, testVersion, []string{"-key", "main.go"}, "main.go is no private key of minisign"},
		{nothing, testVersion, []string{"-repo", os.TempDir()}, "not a git repository"},
		{edit("new.txt", "x"), testVersion, nil, "changes that are not committed, the first of 1 in new.txt; a release is built from a commit"},
		{commit, testVersion, nil, "package.json"},
		{edit("new.txt", "y"), testVersion, nil, "the first of 1 in new.txt"},
		{edit("clients/node/package.json", "{\n  \"version\": \"0.1.0\",\n}\n"), testVersion, nil, "the first of 2 in "},
		{func() { edit("clients/python/src/weirlimit/__init__.py", "__version__ = \"0.2.0\"\n")(); commit() },
			testVersion, nil, "clients/python/src/weirlimit/__init__.py does not have version 0.1.0; change it there and commit it"},
	} {
		c.before()
		out := filepath.Join(t.TempDir(), "dist")
		args := slices.Concat([]string{"dist", "-version", c.version, "-repo", repo, "-out", out}, c.flags)
		err := run(io.Discard, args)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("release %q: %v, want one sentence with %q", args, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("release %q left %s", args, out)
		}
	}
	for _, args := range [][]string{nil, {"distribute"}, {"dist", "v0.1.0"}} {
		if err := run(io.Discard, args); err == nil || !strings.Contains(err.Error(), "usage: ") {
			t.Errorf("release %q: %v, want the usage", args, err)
		}
	}
}

// TestModules: each module of the repository is released or stays in the repository, and the
// released ones require each other by version.
func TestModules(t *testing.T) {
	needs.Time(t)
	needs.Program(t, "git")
	repo := repository(t)
	files, err := git(repo, "ls-files", "go.mod", "*/go.mod")
	needs.Have(t, "a git checkout", err == nil, "run the test in a clone")
	kept := regexp.MustCompile(`^(bench|examples/\w+|release|cmd/weir/internal/report/browsertest)$`)
	for file := range strings.Lines(files) {
		dir := filepath.ToSlash(filepath.Dir(strings.TrimSpace(file)))
		if slices.Contains(released, dir) == kept.MatchString(dir) {
			t.Errorf("module %s is neither released nor kept, or both", dir)
		}
	}
	s := &source{version: testVersion, temp: t.TempDir()}
	s.dir = filepath.Join(s.temp, "source")
	must.Do(t, s.clone(repo))
	must.Do(t, s.releaseModules())
	for _, dir := range released {
		mod := string(readFile(t, filepath.Join(s.dir, dir, "go.mod")))
		if strings.Contains(mod, "replace") || strings.Contains(mod, "v0.0.0\n") {
			t.Errorf("the go.mod of %s is not that of a release:\n%s", dir, mod)
		}
		commits, err := s.git("rev-parse", "HEAD", s.tagName(dir)+"^{commit}")
		must.Do(t, err)
		if head, tagged, _ := strings.Cut(commits, "\n"); tagged != head {
			t.Errorf("tag %s is at %s, the release at %s", s.tagName(dir), tagged, head)
		}
	}
	sum := string(readFile(t, filepath.Join(s.dir, "cmd/weir/go.sum")))
	if n := strings.Count(sum, " "+testVersion+" h1:"); n < 3 {
		t.Errorf("go.sum of cmd/weir has %d modules of this version, want 3", n)
	}
}

// TestManPages: each verb has a page with its flags and its text.
func TestManPages(t *testing.T) {
	needs.Time(t)
	weir := program.Path(t)
	help := func(args ...string) (string, error) { return output(".", nil, weir, args...) }
	pages, err := manPages(checkout(t), help)
	must.Do(t, err)
	for page, words := range map[string][]string{
		"weir.1":          {".TH WEIR 1 2026-11-29 \"weir 0.1.0\"", ".SH SYNOPSIS", ".SH EXAMPLES", ".B validate\n"},
		"weir-serve.1":    {"weir-serve \\- serve decisions over HTTP", `.B \-c, \-\-config FILE`, `\-\-record\-secret\-file`, ".SH SEE ALSO\n.BR weir (1)"},
		"weir-config.1":   {".SH WEIR CONFIG CHECK", ".SH WEIR CONFIG PRINT", ".SS SYNOPSIS"},
		"weir-validate.1": {".SH DESCRIPTION"},
	} {
		for _, word := range words {
			if !bytes.Contains(pages[page], []byte(word)) {
				t.Errorf("%s has no %q:\n%s", page, word, pages[page])
			}
		}
	}
	for page, text := range pages {
		if bytes.Contains(text, []byte("-h explains")) || bytes.Contains(text, []byte(subHeading)) {
			t.Errorf("%s has the last line of a help, or a mark:\n%s", page, text)
		}
	}
}

// TestSettingsAreThoseOfTheUnit: the service of the packages has the settings of deploy/weir.service.
func TestSettingsAreThoseOfTheUnit(t *testing.T) {
	unit, settings := string(readFile(t, "../deploy/weir.service")), string(readFile(t, "packages/weir-serve.yaml"))
	line := regexp.MustCompile(`(?m)^ExecStart=\S+ serve (.*)$`).FindStringSubmatch(unit)[1]
	line += " " + regexp.MustCompile(`"WEIR_STORE=(.*)"`).FindStringSubmatch(unit)[1]
	flags := regexp.MustCompile(`--([a-z-]+)[ =](\S+)`).FindAllStringSubmatch(line, -1)
	for _, flag := range flags {
		want := regexp.MustCompile(`(?m)^ *` + flag[1] + ": " + regexp.QuoteMeta(flag[2]) + "$")
		if !want.MatchString(settings) {
			t.Errorf("packages/weir-serve.yaml has no %s: %s, as deploy/weir.service", flag[1], flag[2])
		}
	}
	if len(flags) < 4 {
		t.Errorf("only the flags %q were found", flags)
	}
	packaged, err := packagedUnit(unit)
	must.Do(t, err)
	for _, word := range []string{"DynamicUser", "WEIR_STORE", "/usr/local"} {
		if strings.Contains(packaged, word) {
			t.Errorf("the packaged unit has %s:\n%s", word, packaged)
		}
	}
	if _, err := packagedUnit(strings.ReplaceAll(unit, "DynamicUser=", "#")); err == nil {
		t.Error("a unit without DynamicUser is taken")
	}
	out, err := exec.Command(program.Path(t), "config", "check", "packages/weir-serve.yaml").CombinedOutput()
	if err != nil {
		t.Errorf("weir config check: %v\n%s", err, out)
	}
}
