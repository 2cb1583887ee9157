package envoyconf

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/txtar"
	"github.com/weirlimit/weir/policy"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing with them")

// badFiles returns the archive of bad files: NAME.yaml, each with its error as NAME.golden.
func badFiles(t testing.TB) *txtar.Archive {
	t.Helper()
	text, err := os.ReadFile("testdata/bad.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return txtar.Parse(text)
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
	_, err := Load(dir, Options{})
	if err == nil || !strings.Contains(err.Error(), "no *.yaml") {
		t.Errorf("an empty directory: %v", err)
	}
	write("..2026_11_20/a.yaml", "domain: a")
	link("..2026_11_20", "..data")
	link("..data/a.yaml", "a.yaml")
	write("sub/b.yml", "domain: b")
	before, err := Fingerprint(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("c.yaml.bak", "domain: a")
	write("C.YAML", "domain: a")
	write(".c.yaml", "domain: a")
	write(".c.yaml.swp", "domain: a")
	write(".git/c.yaml", "domain: a")
	c, err := Load(dir, Options{})
	if err != nil || c.Files != 2 || c.Domain("a") == nil || c.Domain("b") == nil {
		t.Fatalf("got %+v, %v; want the domains a and b", c, err)
	}
	want := []string{
		dir + "/.c.yaml is not read, because its name begins with a dot; rename it, or remove it",
		dir + "/C.YAML is not read, because its name does not end in .yaml or .yml; rename it, or move it out of the directory",
		dir + "/c.yaml.bak is not read, because its name does not end in .yaml or .yml; rename it, or move it out of the directory",
	}
	assert.Equal(t, strings.Join(c.Warnings, "\n"), strings.Join(want, "\n"), "warnings")
	data, err := Fingerprint(dir)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, data) {
		t.Error("the warnings are not noticed by a running server")
	}
	write("bad.yaml", "domain:")
	if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "bad.yaml:1") {
		t.Errorf("one bad file: %v; want an error for the whole directory", err)
	}
	write("bad.yaml", "domain: a\ndescriptors: [{key: k}]")
	if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "duplicate domain 'a'") {
		t.Errorf("a domain in two files: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "bad.yaml")))
	must.Do(t, exec.Command("mkfifo", filepath.Join(dir, "bad.yaml")).Run())
	if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "bad.yaml: this is a directory, a pipe, a device or a socket, not a file; remove it") {
		t.Errorf("a pipe in the directory: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

// A directory whose files are all skipped is an error that names one of them.
func TestOnlySkippedFiles(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "limits.conf"), []byte("domain: a"), 0o644))
	_, err := Load(dir, Options{})
	want := dir + ": there is no *.yaml or *.yml file in the directory; name the directory that holds the domains, or one file: " +
		dir + "/limits.conf is not read, because its name does not end in .yaml or .yml; rename it, or move it out of the directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Files with one domain form it together where MergeDomains is set, as with the reference's
// MERGE_DOMAIN_CONFIG: they may not have the same descriptor.
func TestMergedDomains(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("a.yaml", "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}, {key: p, value: a*, rate_limit: {unit: minute, requests_per_unit: 6}}]")
	write("b.yaml", "domain: shop\ndescriptors: [{key: path, rate_limit: {unit: minute, requests_per_unit: 50}}, {key: p, value: ab*, rate_limit: {unit: minute, requests_per_unit: 7}}]")
	write("c.yaml", "domain: other\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 1}}]")
	c, err := Load(dir, Options{MergeDomains: true})
	if err != nil {
		t.Fatal(err)
	}
	if c.Files != 3 || len(c.Domains) != 2 || c.Rules() != 5 {
		t.Errorf("got %d files, %d domains, %d rules; want 3, 2, 5", c.Files, len(c.Domains), c.Rules())
	}
	for descriptor, want := range map[string]uint32{"user=ann": 5, "path=/x": 50, "p=abc": 6} {
		if r := c.Domain("shop").Match(entries(descriptor)); r == nil || r.Requests != want || c.Domain("shop").Rules[r.Index] != r {
			t.Errorf("%s: rule %+v, want %d requests", descriptor, r, want)
		}
	}
	_, err = Load(dir, Options{})
	if want := "b.yaml:1:9: duplicate domain 'shop' in config file; write it into one file, or merge the files with --envoy-merge-domains"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("not merged: %v, want %s", err, want)
	}
	write("d.yaml", "domain: shop\ndescriptors:\n  - key: user")
	_, err = Load(dir, Options{MergeDomains: true})
	if want := "d.yaml:3:5: duplicate descriptor composite key 'shop.user'"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a descriptor twice: %v, want %s", err, want)
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
