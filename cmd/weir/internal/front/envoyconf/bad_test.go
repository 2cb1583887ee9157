package envoyconf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/policy"
)

const good = "{unit: minute, requests_per_unit: 1}"

var badFiles = []struct {
	name, src string
	words     []string // that the message holds
}{
	{"empty", "", []string{"the file is empty", "domain: NAME"}},
	{"comment", "# nothing\n", []string{"empty"}},
	{"null", "---\n", []string{"the file is empty"}},
	{"text", "domain", []string{"must be a mapping", `"domain"`}},
	{"a list", "- domain: d", []string{"must be a mapping", "a list"}},
	{"no YAML", "domain: d\n  descriptors: [", []string{"limits.yaml:2:3", "looks like a key"}},
	{"a tab", "domain: d\ndescriptors:\n\t- key: k", []string{"limits.yaml:3:1", "a tab cannot indent"}},
	{"two documents", "domain: d\n---\ndomain: e", []string{"limits.yaml:2", "a second document"}},
	{"no domain", "descriptors: []", []string{"empty domain"}},
	{"empty domain", `domain: ""`, []string{"empty domain"}},
	{"null domain", "domain:", []string{"empty domain"}},
	{"domain a list", "domain: [d]", []string{"domain must be text"}},
	{"misspelt", "domain: d\nddescriptors: []", []string{"2:1", "unknown key 'ddescriptors'", "domain, descriptors"}},
	{"misspelt below", "domain: d\ndescriptors: [{key: k, ratelimit: " + good + "}]", []string{"unknown key 'ratelimit'"}},
	{"misspelt limit", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requestsperunit: 1}}]", []string{"unknown key 'requestsperunit'"}},
	{"key no text", "domain: d\n0: x", []string{"key is not of type string", `"0"`}},
	{"key a list", "domain: d\n[a]: x", []string{"limits.yaml:2:1", "a list cannot be a key"}},
	{"twice", "domain: d\ndomain: e", []string{"limits.yaml:2:1", "is there already, on line 1"}},
	{"descriptors a map", "domain: d\ndescriptors: {key: k}", []string{"descriptors must be a list"}},
	{"list of text", "domain: d\ndescriptors: [k]", []string{"a descriptor must be a mapping", `"k"`}},
	{"no key", "domain: d\ndescriptors: [{value: v}]", []string{"descriptor has empty key"}},
	{"empty key", "domain: d\ndescriptors: [{key: ''}]", []string{"descriptor has empty key"}},
	{"key a map", "domain: d\ndescriptors: [{key: {}}]", []string{"key must be text"}},
	{"value a number with a point", "domain: d\ndescriptors: [{key: k, value: 1.50}]", []string{"value is the number 1.50", "quotes"}},
	{"duplicate", "domain: d\ndescriptors: [{key: k, value: v}, {key: k, value: v}]", []string{"duplicate descriptor composite key 'd.k_v'"}},
	{"duplicate key", "domain: d\ndescriptors: [{key: k}, {key: k}]", []string{"duplicate descriptor composite key 'd.k'"}},
	{"duplicate below", "domain: d\ndescriptors: [{key: a, descriptors: [{key: k}, {key: k}]}]", []string{"'d.a.k'"}},
	{"unknown unit", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}]", []string{"invalid rate limit unit 'fortnight'", "second, minute"}},
	{"unit UNKNOWN", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: UNKNOWN, requests_per_unit: 1}}]", []string{"invalid rate limit unit 'UNKNOWN'"}},
	{"no unit", "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1}}]", []string{"invalid rate limit unit ''"}},
	{"empty limit", "domain: d\ndescriptors: [{key: k, rate_limit: {}}]", []string{"invalid rate limit unit"}},
	{"unit of unlimited", "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, unit: day}}]", []string{"should not specify rate limit unit when unlimited"}},
	{"no count", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day}}]", []string{"requests_per_unit is missing"}},
	{"negative", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: -1}}]", []string{"requests_per_unit must be a whole number", `"-1"`}},
	{"overflow", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}]", []string{"0 to 4294967295"}},
	{"huge", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 99999999999999999999}}]", []string{"0 to 4294967295"}},
	{"a fraction", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1.5}}]", []string{"whole number"}},
	{"count in quotes", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: '1'}}]", []string{"whole number"}},
	{"multiplier 0", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 0}}]", []string{"unit_multiplier", "0 units"}},
	{"multiplier too long", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 1, unit_multiplier: 2}}]", []string{"unit_multiplier", "400 days"}},
	{"multiplier overflow", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 1, unit_multiplier: 4294967295}}]", []string{"400 days"}},
	{"replaces itself", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}}]", []string{"name of same descriptor"}},
	{"replaces nothing", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: ''}]}}]", []string{"empty replaces entry"}},
	{"replaces text", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [n]}}]", []string{"replaces must be a mapping"}},
	{"shared without a *", "domain: d\ndescriptors: [{key: k, value: v, share_threshold: true}]", []string{"share_threshold", "'*'"}},
	{"shared without a value", "domain: d\ndescriptors: [{key: k, share_threshold: true}]", []string{"share_threshold"}},
	{"flag", "domain: d\ndescriptors: [{key: k, shadow_mode: maybe}]", []string{"shadow_mode must be true or false"}},
	{"merge of text", "domain: d\n<<: x", []string{"must be a mapping"}},
	{"unknown alias", "domain: *d", []string{"limits.yaml:1:9", "no anchor"}},
	{"endless alias", "domain: d\ndescriptors: &a\n  - {key: k, descriptors: *a}", []string{"limits.yaml:3:27", "within the value that it stands for"}},
	{"endless merge", "domain: d\ndescriptors:\n  - &a {key: k, <<: [*a, *a]}", []string{"within the value that it stands for"}},
}

// A bad file is rejected with its place and its fault.
func TestBadFilesNameThePlace(t *testing.T) {
	for _, c := range badFiles {
		config, err := Parse("limits.yaml", []byte(c.src))
		if err == nil || config != nil {
			t.Errorf("%s: got %+v, %v; want an error", c.name, config, err)
			continue
		}
		var e *policy.Error
		if !errors.As(err, &e) || e.Next == "" || !strings.HasPrefix(err.Error(), "limits.yaml:") || len(err.Error()) > 500 {
			t.Errorf("%s: %v; want a *policy.Error that names the file and the next step", c.name, err)
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v; want it to contain %q", c.name, err, word)
			}
		}
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
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
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
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

func TestLargeFilesAreRejected(t *testing.T) {
	if _, err := Parse("x.yaml", make([]byte, policy.MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "256 KiB") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// FuzzParse: no text makes the parser or the matcher panic.
func FuzzParse(f *testing.F) {
	for _, c := range badFiles {
		f.Add(c.src)
	}
	f.Add("domain: d\ndescriptors: [{key: k, value: 'a*', rate_limit: " + good + "}]")
	f.Fuzz(func(t *testing.T, src string) {
		c, err := Parse("x.yaml", []byte(src))
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v, %v", c, err)
		}
		if err == nil {
			c.Domains[0].Match([]Entry{{"k", "abc"}, {"k", ""}})
		}
	})
}
