package envoyconf

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/txtar"
	"github.com/weirlimit/weir/policy"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing with them")

// badFiles returns the archive of bad files: NAME.yaml, each with its error as NAME.golden.
func badFiles(t testing.TB) *txtar.Archive {
	t.Helper()
	return txtar.Parse(must.Get(os.ReadFile("testdata/bad.txtar"))(t))
}

// A bad file is rejected with its place, its fault and the next step.
func TestBadFilesNameThePlace(t *testing.T) {
	archive := badFiles(t)
	for i := 0; i < len(archive.Files); i += 2 {
		src, golden := archive.Files[i], &archive.Files[i+1]
		config, err := Parse("limits.yaml", src.Data)
		var e *policy.Error
		if !errors.As(err, &e) || config != nil || e.Next == "" || len(err.Error()) > 500 {
			t.Errorf("%s: got %+v, %v; want a *policy.Error with the next step", src.Name, config, err)
			continue
		}
		if *rewrite {
			golden.Data = []byte(err.Error() + "\n")
		} else if got := err.Error() + "\n"; got != string(golden.Data) {
			t.Errorf("%s: after reading the difference, run with -rewrite\ngot:\n%s\nwant:\n%s", src.Name, got, golden.Data)
		}
	}
	if *rewrite {
		must.Do(t, os.WriteFile("testdata/bad.txtar", txtar.Format(archive), 0o644))
	}
}

// Fields that the reference ignores are warnings, not errors: its files load.
func TestIgnoredFieldsAreWarnings(t *testing.T) {
	c := parse(t, "domain: d\ndescriptors:\n  - key: k\n    unit: day\n    rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}")
	if len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0], "limits.yaml:4:5") || !strings.Contains(c.Warnings[1], "shadow_mode has no effect here, in rate_limit") {
		t.Errorf("warnings %q", c.Warnings)
	}
	if r := c.Domain("d").Match(entries("k=1")); r.Shadow {
		t.Error("shadow_mode inside rate_limit has an effect")
	}
}

// A directory is read as the reference reads it, and as Kubernetes mounts it.
func TestDirectoriesAreReadAsAWhole(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	link := func(to, name string) {
		t.Helper()
		must.Do(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	_, err := Load(dir)
	if err == nil || !strings.Contains(err.Error(), "no *.yaml") {
		t.Errorf("an empty directory: %v", err)
	}
	write("..2026_11_20/a.yaml", "domain: a")
	link("..2026_11_20", "..data")
	link("..data/a.yaml", "a.yaml")
	write("sub/b.yml", "domain: b")
	write("README.md", "no: domain")
	c, err := Load(dir)
	if err != nil || c.Files != 2 || c.Domain("a") == nil || c.Domain("b") == nil {
		t.Fatalf("got %+v, %v; want the domains a and b", c, err)
	}
	write("bad.yaml", "domain:")
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "bad.yaml:1") {
		t.Errorf("one bad file: %v; want an error for the whole directory", err)
	}
	write("bad.yaml", "domain: a\ndescriptors: [{key: k}]")
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "duplicate domain 'a'") {
		t.Errorf("a domain in two files: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "bad.yaml")))
	must.Do(t, exec.Command("mkfifo", filepath.Join(dir, "bad.yaml")).Run())
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "bad.yaml: this is a directory, a pipe, a device or a socket, not a file; remove it") {
		t.Errorf("a pipe in the directory: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

// FuzzParse: no text makes the parser or the matcher panic.
func FuzzParse(f *testing.F) {
	for _, file := range badFiles(f).Files {
		f.Add(string(file.Data))
	}
	f.Add("domain: d\ndescriptors: [{key: k, value: 'a*', rate_limit: {unit: minute, requests_per_unit: 1}}]")
	f.Fuzz(func(t *testing.T, src string) {
		c, err := Parse("x.yaml", []byte(src))
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v, %v", c, err)
		}
		if err == nil {
			c.Domains[0].Match([]Entry{{Name: "k", Value: "abc"}, {Name: "k"}})
		}
	})
}
