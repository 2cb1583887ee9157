package main

import (
	"strings"
	"testing"
)

// TestEveryMutantFits applies every fault, without running it: one that fits no
// longer would test nothing.
func TestEveryMutantFits(t *testing.T) {
	mutants, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 24 {
		t.Errorf("got %d mutants, want at least 24", len(mutants))
	}
	for _, m := range mutants {
		if _, err := m.apply("../.."); err != nil {
			t.Errorf("mutants.txt:%d: %s: %v; change its lines with the code", m.line, m.about, err)
		}
		if !strings.HasPrefix(m.about, "R") || m.old == m.new {
			t.Errorf("mutants.txt:%d: %s: it names no rule, or changes nothing", m.line, m.about)
		}
	}
}

func TestParseRefusesWhatItCannotApply(t *testing.T) {
	for _, text := range []string{"-x\n", "# R1: x\n-x\n", "# R1: x\nfile f\n", "# R1: x\nfile f\n x\n"} {
		if m, err := parse(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, m)
		}
	}
	m := mutant{file: "list.go", old: "}\n", new: ""}
	if _, err := m.apply("."); err == nil || !strings.Contains(err.Error(), "times in list.go") {
		t.Errorf("lines that occur often: got %v, want an error that counts them", err)
	}
}
