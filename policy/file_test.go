package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/policyfile"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// demonstration returns the text of the policies of weir serve without a file.
func demonstration(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("../cmd/weir/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestLoadNamesThePath: the name in messages is the path, and the cause of an error is kept.
func TestLoadNamesThePath(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, src []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, src, 0o600))
		return path
	}

	demoSource := demonstration(t)
	good := write("good.yaml", demoSource)
	f, err := Load(good)
	if err != nil || f.Name != good || len(f.Policies) != 6 {
		t.Errorf("Load of the demonstration: %+v, %v", f, err)
	}

	bad := write("bad.yaml", []byte("version: 1\n"))
	if _, err = Load(bad); err == nil || !strings.HasPrefix(err.Error(), bad+":1:1: policies: is missing; ") {
		t.Errorf("Load of a file without policies: %v", err)
	}

	missing := filepath.Join(dir, "missing.yaml")
	_, err = Load(missing)
	if want := missing + ": the file cannot be read: no such file or directory; check the path and the permissions"; !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("Load of no file:\ngot  %v\nwant %v", err, want)
	}
	_, err = Load(dir)
	assert.Error(t, err, nil, "is a directory")
}

// TestSizeIsBounded: a file of MaxBytes is read, one byte more is not, and an endless one
// is not read to its end.
func TestSizeIsBounded(t *testing.T) {
	demoSource := demonstration(t)
	largest := append(bytes.Clone(demoSource), bytes.Repeat([]byte("#"), policyfile.MaxBytes-len(demoSource))...)
	if _, err := Parse("f", largest); err != nil {
		t.Fatal(err)
	}
	_, err := Parse("f", append(largest, '\n'))
	assert.Equal(t, fmt.Sprint(err), "f: the file is larger than 256 KiB; split it, and run one weir for each part", "a file of a byte more")
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Log("no /dev/zero here")
	} else if _, err := Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "larger than 256 KiB") {
		t.Errorf("/dev/zero: %v", err)
	}
}

// TestPolicyRejectsPartsThatOnlyEnforceApplies: Policy does not drop parts of the file
// silently. The error names the part, its place and the next step.
func TestPolicyRejectsPartsThatOnlyEnforceApplies(t *testing.T) {
	for words, want := range map[string]string{
		"limit: 5 per minute per user\n    shadow: true":                                                                 "shadow",
		"limit: 5 per minute per user, then block 1h":                                                                    "",
		"limit: 5 per minute per user\n    count: reported":                                                              "count: reported",
		"limit: 5 per minute per ip\n    keys: {ip: address}":                                                            "keys",
		"limit: 5 per minute per user\n    warn: 80%":                                                                    "warn",
		"limit: 5 per minute per user\n    plan-by: plan\n    plans: {pro: 50 per minute}":                               "plans",
		"limit: 5 per minute per user\n    overrides: [{for: {user: ann}, limit: 9 per minute, until: forever, why: x}]": "overrides",
		"limit: 5 per minute per user\n    shadow: true\n    warn: 80%":                                                  "shadow, warn",
		"limit: 5 per minute per user":                                                                                   "",
	} {
		f, err := Parse("weir.yaml", []byte("version: 1\npolicies:\n  login:\n    "+words+"\n"))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		d := f.Definition("login")
		p, err := d.Policy()
		if want != "" {
			want = "weir.yaml:3: policy login uses " + want + ", which a weir.Limiter cannot apply; use package enforce (enforce.Open), which applies the whole file"
			if bad := new(Error); !errors.As(err, &bad) || err.Error() != want {
				t.Errorf("%s:\ngot  %v\nwant %s", words, err, want)
			}
			continue
		}
		if wanted := (weir.Policy{Name: "login", Dimensions: []string{"user"}, Limits: d.Limits}); err != nil || !reflect.DeepEqual(p, wanted) {
			t.Errorf("%s: got %+v, %v; want %+v", words, p, err, wanted)
		}
	}
}
