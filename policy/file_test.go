package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestLoadNamesThePath: the name in messages is the path, and the cause of an error is kept.
func TestLoadNamesThePath(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, src []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, src, 0o600))
		return path
	}

	good := write("good.yaml", demoSource)
	f, err := Load(good)
	if err != nil || f.Name != good || len(f.Policies) != len(Demo().Policies) {
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
	if _, err = Load(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("Load of a directory: %v", err)
	}
}

// TestSizeIsBounded: a file of MaxBytes is read, one byte more is not, and an endless one
// is not read to its end.
func TestSizeIsBounded(t *testing.T) {
	largest := append(bytes.Clone(demoSource), bytes.Repeat([]byte("#"), MaxBytes-len(demoSource))...)
	must.Get(Parse("f", largest))(t)
	want := "f: the file is larger than 256 KiB; split it, and run one weir for each part"
	if _, err := Parse("f", append(largest, '\n')); err == nil || err.Error() != want {
		t.Errorf("a file of a byte more: got %v, want %s", err, want)
	}
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Log("no /dev/zero here")
	} else if _, err := Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "larger than 256 KiB") {
		t.Errorf("/dev/zero: %v", err)
	}
}

// TestDemoIsEachCallersOwn: the demonstration has the documented policies, and each caller
// gets a copy.
func TestDemoIsEachCallersOwn(t *testing.T) {
	var names []string
	for _, p := range Demo().Policies {
		names = append(names, p.Name)
	}
	if got, want := fmt.Sprint(names), "[demo push-notifications slack-alerts search sms transfers]"; got != want {
		t.Errorf("policies: got %s, want %s", got, want)
	}
	if got := Demo().Definition("nobody"); got != nil {
		t.Errorf("Definition of no name: got %+v, want nil", got)
	}
	if got, want := Demo().Definition("demo").Sentence(0), "10 per 10s per user"; got != want {
		t.Errorf("demo: got %q, want %q", got, want)
	}
	before := describe(Demo())
	spoilt := Demo()
	spoilt.Policies[0].Limits[0].By[0] = "spoilt"
	spoilt.Policies[0].Units[0] = "spoilt"
	spoilt.Policies[0].Limits[0].Max = 0
	spoilt.Definition("sms").About = "spoilt"
	spoilt.Policies[1] = nil
	if after := describe(Demo()); after != before {
		t.Errorf("a caller changed the demonstration of another:\n%s", after)
	}
}

// TestManyPoliciesKeepTheirOrder: 2,500 policies, a little below MaxBytes, are all there, in the
// order of the file and by name.
func TestManyPoliciesKeepTheirOrder(t *testing.T) {
	const many = 2_500
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	for i := range many {
		fmt.Fprintf(&b, "  policy-%d:\n    about: Policy %d of many.\n    limit: %d per minute per user, 3s apart\n", i, i, i+1)
	}
	f, err := Parse("weir.yaml", []byte(b.String()))
	if err != nil || len(f.Policies) != many {
		t.Fatalf("%d bytes: %v", b.Len(), err)
	}
	for i, p := range f.Policies {
		if want := int64(i + 1); p.Limits[0].Max != want || f.Definition(fmt.Sprintf("policy-%d", i)) != p || p.Line != 3+3*i {
			t.Fatalf("policy %d: %+v", i, p)
		}
	}
}
