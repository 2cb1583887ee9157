package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one fault: lines of a file and their replacement.
type mutant struct {
	about    string // the broken rule and the fault
	file     string // relative to the suite's directory
	line     int    // in the suite's list
	old, new string
}

// mutants reads the faults of the suite, separated by blank lines:
//
//	# R3: the fault
//	file internal/window/history.go
//	-	the lines of the source
//	+	the lines of the mutant
func (s *suite) mutants() ([]mutant, error) {
	var mutants []mutant
	var m *mutant
	for i, line := range strings.Split(s.list, "\n") {
		about, begins := strings.CutPrefix(line, "# ")
		switch {
		case begins:
			mutants = append(mutants, mutant{about: about, line: i + 1})
			m = &mutants[len(mutants)-1]
		case line == "":
			m = nil
		case m == nil:
			return nil, fmt.Errorf("%s:%d: a mutant begins with a comment that describes its fault", s.file, i+1)
		case strings.HasPrefix(line, "file "):
			m.file = line[len("file "):]
		case line[0] == '-':
			m.old += line[1:] + "\n"
		case line[0] == '+':
			m.new += line[1:] + "\n"
		default:
			return nil, fmt.Errorf("%s:%d: a line begins with #, file, - or +", s.file, i+1)
		}
	}
	for _, m := range mutants {
		if m.file == "" || m.old == "" {
			return nil, fmt.Errorf("%s:%d: a mutant needs a file and lines to replace", s.file, m.line)
		}
	}
	return mutants, nil
}

// apply returns the text of the file with the fault. The old lines must occur exactly
// once.
func (m *mutant) apply(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count("\n"+string(text), "\n"+m.old); n != 1 {
		return "", fmt.Errorf("the lines to replace occur %d times in %s, not once", n, m.file)
	}
	return strings.Replace("\n"+string(text), "\n"+m.old, "\n"+m.new, 1)[1:], nil
}
