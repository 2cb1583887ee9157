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
		text := readFile(t, file)
		vectors, err := parseVectors(filepath.Base(file), string(text))
		if err != nil {
			t.Fatal(err)
		}
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

// TestParseWritesWhatItRead: the vector of testdata/good.txt has every word.
func TestParseWritesWhatItRead(t *testing.T) {
	goodVector := string(readFile(t, "testdata/good.txt"))
	vectors, err := parseVectors("good.txt", goodVector+"\n\n\n"+goodVector)
	if err != nil || len(vectors) != 2 {
		t.Fatalf("got %d vectors, %v, want 2", len(vectors), err)
	}
	assert.Equal(t, vectors[1].line, 31, "the line of the second vector")
	for _, v := range vectors {
		assert.Equal(t, v.text(), goodVector, "written again")
	}
}

// TestParseRejectsUnknownWords: each text of testdata/bad.txt is rejected with the error in front of
// it. Its file is named f.
func TestParseRejectsUnknownWords(t *testing.T) {
	file := readFile(t, "testdata/bad.txt")
	for bad := range strings.SplitSeq(strings.TrimSpace(string(file)), "\n\n") {
		first, text, _ := strings.Cut(bad, "\n")
		want := strings.TrimPrefix(first, "! ")
		_, err := parseVectors("f", text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%s\ngot %v, want an error with %q", text, err, want)
		}
	}
}

// FuzzParse: the parser does not panic, and the text of an accepted vector parses to the
// same vector.
func FuzzParse(f *testing.F) {
	f.Add(string(readFile(f, "testdata/good.txt")))
	files, err := os.ReadDir(vectorDir)
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text := readFile(f, filepath.Join(vectorDir, file.Name()))
		for _, vector := range strings.Split(string(text), "\n\n") {
			f.Add(vector)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		vectors, err := parseVectors("f", text)
		if err != nil {
			return
		}
		once := formatted(vectors)
		again, err := parseVectors("f", once)
		if err != nil {
			t.Fatalf("cannot read what was written: %v\n%s", err, once)
		}
		assert.Equal(t, formatted(again), once, "written twice")
	})
}

// readFile returns the bytes of a file.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
