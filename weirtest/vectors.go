package weirtest

import (
	"embed"
	"io/fs"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

//go:embed testdata/*.txt
var vectorFiles embed.FS

// runVectors runs every vector on a fresh engine, in a subtest named after its
// file and rule.
func runVectors(t *testing.T, newEngine func(t *testing.T) weir.Engine, c config) {
	for _, v := range allVectors(t) {
		if c.fixed && v.changes() {
			continue
		}
		t.Run(strings.TrimSuffix(v.file, ".txt")+"/"+v.name, func(t *testing.T) {
			e := newEngine(t)
			if v.refundsOnce() && !remembersRefunds(e) {
				t.Skipf("an engine of type %T remembers no refunds", e)
			}
			m, err := v.run(e)
			if err != nil {
				t.Fatalf("%s:%d: %v", v.file, v.line, err)
			}
			if m != nil {
				t.Errorf("weirtest/testdata/%s:%d: %s", v.file, v.line, m)
			}
		})
	}
}

// allVectors reads the embedded files.
func allVectors(t *testing.T) []*vector {
	t.Helper()
	names, err := fs.Glob(vectorFiles, "testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []*vector
	for _, name := range names {
		text, err := vectorFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := parseVectors(strings.TrimPrefix(name, "testdata/"), string(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, vectors...)
	}
	return all
}
