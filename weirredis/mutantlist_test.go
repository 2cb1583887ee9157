package weirredis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mutants reads testdata/mutants.txt.
func mutants(t *testing.T) []mutant {
	t.Helper()
	text, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseMutants(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestMutantsFit holds every mutant against the file it is about, without running
// any: its lines are there once.
func TestMutantsFit(t *testing.T) {
	list := mutants(t)
	if len(list) < 20 {
		t.Errorf("%d mutants, want at least 20", len(list))
	}
	for i := range list {
		if _, _, err := list[i].apply(); err != nil {
			t.Errorf("mutants.txt:%d: %s: %v", list[i].line, list[i].about, err)
		}
	}
}

func TestBadMutants(t *testing.T) {
	for _, text := range []string{"file x", "# a\nfile x\n", "# a\n-\tx\n", "# a\nfile x\n?\n"} {
		if _, err := parseMutants(text); err == nil || !strings.Contains(err.Error(), "mutants.txt:") {
			t.Errorf("%q: got %v, want an error with its line", text, err)
		}
	}
}

// mutant is one fault: some lines of a file and what stands there instead.
type mutant struct {
	about    string // the rule it breaks, and how
	file     string // relative to weirredis
	line     int    // in mutants.txt
	old, new string
}

// parseMutants reads mutants, which blank lines separate:
//
//	# R3: what is wrong
//	file lua/history.lua
//	-	the lines as they are
//	+	the lines as the mutant has them
func parseMutants(text string) ([]mutant, error) {
	var mutants []mutant
	var m *mutant
	for i, line := range strings.Split(text, "\n") {
		about, begins := strings.CutPrefix(line, "# ")
		switch {
		case begins:
			mutants = append(mutants, mutant{about: about, line: i + 1})
			m = &mutants[len(mutants)-1]
		case line == "":
			m = nil
		case m == nil:
			return nil, fmt.Errorf("mutants.txt:%d: a mutant begins with a comment that says what is wrong", i+1)
		case strings.HasPrefix(line, "file "):
			m.file = line[len("file "):]
		case line[0] == '-':
			m.old += line[1:] + "\n"
		case line[0] == '+':
			m.new += line[1:] + "\n"
		default:
			return nil, fmt.Errorf("mutants.txt:%d: a line begins with #, file, - or +", i+1)
		}
	}
	for _, m := range mutants {
		if m.file == "" || m.old == "" {
			return nil, fmt.Errorf("mutants.txt:%d: a mutant needs a file and lines to replace", m.line)
		}
	}
	return mutants, nil
}

// apply returns the file with the fault in it. The old lines must occur exactly
// once, or the mutant is about code that is no longer there.
func (m *mutant) apply() (path, text string, err error) {
	path, err = filepath.Abs(m.file)
	if err != nil {
		return "", "", err
	}
	right, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count("\n"+string(right), "\n"+m.old); n != 1 {
		return "", "", fmt.Errorf("the lines to replace occur %d times in %s, not once", n, m.file)
	}
	return path, strings.Replace("\n"+string(right), "\n"+m.old, "\n"+m.new, 1)[1:], nil
}
