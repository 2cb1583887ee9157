package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var rewrite = flag.Bool("rewrite", false, "write the specification's answers into weirtest/testdata/*.txt; read the difference before committing it")

// vectorDir holds the vectors, beside the public package for authors of engines.
const vectorDir = "../../weirtest/testdata"

var vectorFiles = os.DirFS(vectorDir)

// TestVectorsAsWritten compares the specification with every vector. With -rewrite it
// writes the specification's answers into the files.
func TestVectorsAsWritten(t *testing.T) {
	files, err := filepath.Glob(vectorDir + "/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		vectors := must.Get(parseVectors(filepath.Base(file), string(text)))(t)
		if *rewrite {
			rewriteFile(t, file, vectors)
			continue
		}
		assert.Equal(t, string(text), formatted(vectors), "%s, and as -rewrite would write it", file)
		for _, v := range vectors {
			if m, err := v.run(spec.New()); err != nil || m != nil {
				t.Errorf("%s:%d: %v %v", file, v.line, err, m)
			}
		}
	}
}

func rewriteFile(t *testing.T, file string, vectors []*vector) {
	t.Helper()
	for _, v := range vectors {
		if err := v.answers(spec.New()); err != nil {
			t.Fatalf("%s:%d: %v", file, v.line, err)
		}
	}
	must.Do(t, os.WriteFile(file, []byte(formatted(vectors)), 0o644))
}

// formatted is the text of a file of vectors.
func formatted(vectors []*vector) string {
	var texts []string
	for _, v := range vectors {
		texts = append(texts, v.text())
	}
	return strings.Join(texts, "\n")
}
