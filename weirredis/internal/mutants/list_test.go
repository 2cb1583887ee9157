package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestList holds every mutant against the file it is about, without running any:
// its lines are there once.
func TestList(t *testing.T) {
	mutants, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 20 {
		t.Errorf("%d mutants, want at least 20", len(mutants))
	}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count("\n"+string(text), "\n"+m.old); n != 1 {
			t.Errorf("mutants.txt:%d: %s: its lines occur %d times in %s, not once", m.line, m.about, n, m.file)
		}
	}
}

func TestBadLists(t *testing.T) {
	for _, text := range []string{"file x", "# a\nfile x\n", "# a\n-\tx\n", "# a\nfile x\n?\n"} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), "mutants.txt:") {
			t.Errorf("%q: got %v, want an error with its line", text, err)
		}
	}
}
