package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// bench is a copy of the module in which tests run while one file is wrong.
type bench struct {
	module string // the copy
	bin    string // where test binaries are built
}

// newBench copies the module at root below dir.
func newBench(root, dir string) (*bench, error) {
	b := &bench{module: filepath.Join(dir, "module"), bin: filepath.Join(dir, "bin")}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(b.module, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
	return b, err
}

// layer is a part of the tests of the memory engine: the package it is in, and the
// arguments of its test binary.
type layer struct {
	name, pkg string
	args      []string
}

// layers are tried for every mutant.
var layers = []layer{
	{"vectors", ".", []string{"-test.run=^TestMemoryConformance$/^vectors$"}},
	{"differential", ".", []string{"-test.run=^TestMemoryConformance$/^differential$", "-weirtest.attempts=100000"}},
	{"hammer", ".", []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=40"}},
	{"once", ".", []string{"-test.run=^TestMemoryConformance$/^once$", "-test.count=20"}},
	{"unit", ".", []string{"-test.run=^Test(R1|NoA|Operations|NoD|Sweep|Virtual|Plan|Keys|Wait|Through|Correction|Second|Refused|Who)"}},
	{"unit", "internal/window", nil},
	{"unit", "internal/slab", nil},
}

// lastResort is tried when all layers have passed: a race needs its time.
var lastResort = layer{"hammer", ".", []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=400"}}

// try runs every layer with the mutant in place, or without one for nil. It
// returns the layers that failed and what the first of them said.
func (b *bench) try(m *mutant) (caught []string, said string, err error) {
	if m != nil {
		undo, err := b.spoil(m)
		if err != nil {
			return nil, "", err
		}
		defer undo()
	}
	for _, pkg := range []string{".", "internal/window", "internal/slab"} {
		build := exec.Command("go", "test", "-c", "-o", b.binary(pkg), "./"+pkg)
		build.Dir = b.module
		if out, err := build.CombinedOutput(); err != nil {
			return nil, "", fmt.Errorf("it does not compile: %s", out)
		}
	}
	for _, layer := range layers {
		if out, ok := b.passes(layer); !ok && !slices.Contains(caught, layer.name) {
			caught = append(caught, layer.name)
			said += out
		}
	}
	if m != nil && len(caught) == 0 {
		if _, ok := b.passes(lastResort); !ok {
			caught = append(caught, lastResort.name)
		}
	}
	return caught, said, nil
}

// spoil puts the mutant into the copy, and returns what takes it out again.
func (b *bench) spoil(m *mutant) (undo func(), err error) {
	file := filepath.Join(b.module, m.file)
	right, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	wrong, err := m.apply(b.module)
	if err != nil {
		return nil, err
	}
	undo = func() { _ = os.WriteFile(file, right, 0o644) } // a failure shows with the next mutant
	return undo, os.WriteFile(file, []byte(wrong), 0o644)
}

func (b *bench) binary(pkg string) string {
	return filepath.Join(b.bin, filepath.Base(filepath.Join("root", pkg))+".test")
}

// patience is how long one layer may take; a mutant that hangs is caught, too.
const patience = 3 * time.Minute

// passes runs a layer and reports whether it succeeded in time.
func (b *bench) passes(l layer) (said string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, b.binary(l.pkg), append(slices.Clone(l.args), "-test.failfast")...)
	c.Dir = filepath.Join(b.module, l.pkg)
	out, err := c.CombinedOutput()
	return string(out), err == nil
}
