package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// bench runs the layers of tests on the module at root, with one file replaced.
type bench struct {
	root string
	dir  string // for what is built
}

// limit is how long one layer may take; a mutant that hangs is caught, too.
const limit = 2 * time.Minute

// layers are the tests of the memory engine: a test binary, and its arguments.
var layers = []struct {
	name, binary string
	args         []string
}{
	{"vectors", "weir", []string{"-test.run=^TestMemoryConformance$/^vectors$"}},
	{"differential", "weir", []string{"-test.run=^TestMemoryConformance$/^differential$", "-weirtest.attempts=100000"}},
	{"hammer", "weir", []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=20"}},
	{"unit", "weir", []string{"-test.run=^Test", "-test.skip=^Test(MemoryConformance|WhoImportsWhom|Barriers|Dependencies|RootNeeds.*|Every.*)$"}},
	{"unit", "window", nil},
	{"unit", "slab", nil},
}

// binaries are the packages that hold the layers.
var binaries = []struct{ name, pkg string }{
	{"weir", "."}, {"window", "./internal/window"}, {"slab", "./internal/slab"},
}

// try builds the tests with the mutant in place, or without one for nil, and
// returns the layers that fail.
func (b *bench) try(m *mutant) (caught []string, err error) {
	overlay, err := b.overlay(m)
	if err != nil {
		return nil, err
	}
	for _, bin := range binaries {
		out, err := b.command("go", "test", "-c", "-overlay", overlay, "-o", filepath.Join(b.dir, bin.name), bin.pkg)
		if err != nil {
			return nil, fmt.Errorf("it does not compile: %s", out)
		}
	}
	for _, layer := range layers {
		pkg, _ := filepath.Abs(b.root)
		for _, bin := range binaries {
			if bin.name == layer.binary {
				pkg = filepath.Join(pkg, bin.pkg)
			}
		}
		if !b.passes(pkg, filepath.Join(b.dir, layer.binary), layer.args) && !strings.Contains(strings.Join(caught, " "), layer.name) {
			caught = append(caught, layer.name)
		}
	}
	return caught, nil
}

// overlay writes the mutant's file and the table that tells the compiler to read
// it in place of the real one.
func (b *bench) overlay(m *mutant) (string, error) {
	replace := map[string]string{}
	if m != nil {
		text, err := m.apply(b.root)
		if err != nil {
			return "", err
		}
		file, err := filepath.Abs(filepath.Join(b.root, m.file))
		if err != nil {
			return "", err
		}
		replace[file] = filepath.Join(b.dir, "mutant.go")
		if err := os.WriteFile(replace[file], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	table, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(b.dir, "overlay.json")
	return name, os.WriteFile(name, table, 0o644)
}

// command runs a tool at the top of the module and returns what it said.
func (b *bench) command(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = b.root
	out, err := c.CombinedOutput()
	return string(out), err
}

// passes runs a test binary in the directory of its package and reports whether
// it succeeded in time.
func (b *bench) passes(dir, binary string, args []string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, binary, append(args, "-test.failfast")...)
	c.Dir = dir
	return c.Run() == nil
}
