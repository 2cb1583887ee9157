package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
)

// docs are the files beside the program, by their names in an archive.
type docs struct {
	texts       map[string][]byte // LICENSE, README.md, …
	completions map[string][]byte // by shell
	man         map[string][]byte // by name of the page, such as weir-serve.1
}

// completionNames are the names of the completions that the shells look for, by shell.
var completionNames = map[string]string{"bash": "weir.bash", "zsh": "_weir", "fish": "weir.fish"}

// noticesName is the file with the licenses of third-party code.
const noticesName = "THIRD-PARTY-LICENSES"

// makeDocs collects the files beside the program. The program itself writes its completions
// and the help from which the pages of the manual are made.
func makeDocs(s *source, binaries map[target]string, deps []dependency) (*docs, error) {
	here := target{runtime.GOOS, runtime.GOARCH}
	weir, ok := binaries[here]
	if !ok {
		return nil, fmt.Errorf("a release cannot be built on %s, where weir does not run; the platforms are %v", here, targets)
	}
	d := &docs{texts: map[string][]byte{noticesName: notices(deps)}, completions: map[string][]byte{}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		text, err := s.read(name)
		if err != nil {
			return nil, err
		}
		d.texts[name] = text
	}
	for shell := range completionNames {
		text, err := output(s.dir, nil, weir, "completion", shell)
		if err != nil {
			return nil, err
		}
		d.completions[shell] = []byte(text + "\n")
	}
	var err error
	d.man, err = manPages(s, func(args ...string) (string, error) { return output(s.dir, nil, weir, args...) })
	return d, err
}

// files returns all files by their names in an archive.
func (d *docs) files() map[string][]byte {
	all := maps.Clone(d.texts)
	for shell, text := range d.completions {
		all["completions/"+completionNames[shell]] = text
	}
	for name, text := range d.man {
		all["man/man1/"+name] = text
	}
	return all
}

// sorted returns the names of files in order, so that each build writes them alike.
func sorted(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }
