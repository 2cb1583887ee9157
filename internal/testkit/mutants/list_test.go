package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryMutantFits applies every fault, without running it: one that fits no
// longer would test nothing.
func TestEveryMutantFits(t *testing.T) {
	for _, s := range []*suite{&memory, &batches, &library, &redis} {
		mutants, err := s.mutants()
		if err != nil {
			t.Fatal(err)
		}
		if len(mutants) < 24 {
			t.Errorf("%s: got %d mutants, want at least 24", s.file, len(mutants))
		}
		for _, m := range mutants {
			if _, err := m.apply(filepath.Join("../../..", s.dir)); err != nil {
				t.Errorf("%s:%d: %s: %v; change its lines with the code", s.file, m.line, m.about, err)
			}
			if m.old == m.new || s != &redis && !strings.HasPrefix(m.about, "R") && !strings.HasPrefix(m.about, "D") {
				t.Errorf("%s:%d: %s: it names no rule, or changes nothing", s.file, m.line, m.about)
			}
		}
	}
}

func TestParseRejectsWhatItCannotApply(t *testing.T) {
	for _, text := range []string{"-x\n", "# R1: x\n-x\n", "# R1: x\nfile f\n", "# R1: x\nfile f\n x\n", "file x", "# a\nfile x\n?\n"} {
		s := suite{file: "some.txt", list: text}
		if m, err := s.mutants(); err == nil || !strings.HasPrefix(err.Error(), "some.txt:") {
			t.Errorf("%q: got %v, %v, want an error with its line", text, m, err)
		}
	}
	m := mutant{file: "list.go", old: "}\n", new: ""}
	if _, err := m.apply("."); err == nil || !strings.Contains(err.Error(), "times in list.go") {
		t.Errorf("lines that occur often: got %v, want an error that counts them", err)
	}
}
