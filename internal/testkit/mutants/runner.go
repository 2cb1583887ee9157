package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// runner builds and runs the tests of a suite with one mutant.
type runner struct {
	*suite
	dir    string // of the binaries
	all    bool   // run the layers after the first failure, too
	output string // of the last layer that failed
}

// try runs the layers with a mutant, or without one if m is nil, and returns those that
// failed: the first one, or all of them if r.all is set.
func (r *runner) try(m *mutant) (caught []string, err error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return nil, err
	}
	built := map[string]bool{}
	for _, l := range append(slices.Clone(r.layers), r.lastResort) {
		if slices.Contains(caught, l.name) || len(caught) > 0 && !r.all {
			continue
		}
		if !built[l.pkg] {
			if err := r.build(overlay, l.pkg); err != nil {
				return nil, err
			}
			built[l.pkg] = true
		}
		if !r.passes(l) {
			caught = append(caught, l.name)
		}
	}
	return caught, nil
}

// overlay writes the mutant's file and an overlay file for the go command, which
// replaces the source by it.
func (r *runner) overlay(m *mutant) (string, error) {
	replace := map[string]string{}
	if m != nil {
		source, err := filepath.Abs(filepath.Join(r.suite.dir, m.file))
		if err != nil {
			return "", err
		}
		text, err := m.apply(r.suite.dir)
		if err != nil {
			return "", err
		}
		mutated := filepath.Join(r.dir, "mutated"+filepath.Ext(m.file))
		if err := os.WriteFile(mutated, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[source] = mutated
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o644)
}

func (r *runner) binary(pkg string) string {
	return filepath.Join(r.dir, filepath.Base(filepath.Join("root", pkg))+".test")
}

func (r *runner) build(overlay, pkg string) error {
	c := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", r.binary(pkg), "./"+pkg)
	c.Dir = r.suite.dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))
	}
	return nil
}

// layerTimeout bounds the run of one layer. A mutant that hangs counts as caught.
const layerTimeout = 3 * time.Minute

// passes runs a layer and reports whether it succeeded in time.
func (r *runner) passes(l layer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), layerTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, r.binary(l.pkg), append(slices.Clone(l.args), "-test.failfast")...)
	c.Dir = filepath.Join(r.suite.dir, l.pkg)
	out, err := c.CombinedOutput()
	if err != nil {
		r.output = string(out)
	}
	return err == nil
}
