package conformance

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/weirlimit/weir/engine"
)

// runVectors runs every vector on a new engine, in a subtest named after its file and
// rule.
func runVectors(t *testing.T, newEngine func(t *testing.T) engine.Engine, c Config) {
	for _, v := range allVectors(t, c.Vectors) {
		if c.FixedLimits && v.changes() || !c.claimsVector(v) {
			continue
		}
		t.Run(strings.TrimSuffix(v.file, ".txt")+"/"+v.name, func(t *testing.T) {
			m, err := v.run(newEngine(t))
			if err != nil {
				t.Fatalf("%s:%d: %v", v.file, v.line, err)
			}
			if m != nil {
				t.Errorf("weirtest/testdata/%s:%d: %s", v.file, v.line, m)
			}
		})
	}
}

// allVectors reads the files of vectors.
func allVectors(t *testing.T, files fs.FS) []*vector {
	t.Helper()
	names, err := fs.Glob(files, "*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []*vector
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := parseVectors(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, vectors...)
	}
	return all
}
