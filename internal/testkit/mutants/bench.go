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

// bench builds and runs the tests of a suite while one file is wrong.
type bench struct {
	*suite
	dir  string // for what is built
	all  bool   // whether all layers are asked
	said string // what the last failing layer said
}

// try runs the layers with the mutant in place, or without one for nil, and
// returns those that failed: the first one only, unless all are asked.
func (b *bench) try(m *mutant) (caught []string, err error) {
	overlay, err := b.overlay(m)
	if err != nil {
		return nil, err
	}
	built := map[string]bool{}
	ask := func(l layer) error {
		if slices.Contains(caught, l.name) || len(caught) > 0 && !b.all {
			return nil
		}
		if !built[l.pkg] {
			if err := b.build(overlay, l.pkg); err != nil {
				return err
			}
			built[l.pkg] = true
		}
		if !b.passes(l) {
			caught = append(caught, l.name)
		}
		return nil
	}
	for _, l := range append(slices.Clone(b.layers), b.lastResort) {
		if err := ask(l); err != nil {
			return nil, err
		}
	}
	return caught, nil
}

// overlay writes the mutant's file, and the file that tells the go command to read
// it in place of the right one.
func (b *bench) overlay(m *mutant) (string, error) {
	replace := map[string]string{}
	if m != nil {
		right, err := filepath.Abs(filepath.Join(b.suite.dir, m.file))
		if err != nil {
			return "", err
		}
		text, err := m.apply(b.suite.dir)
		if err != nil {
			return "", err
		}
		wrong := filepath.Join(b.dir, "wrong"+filepath.Ext(m.file))
		if err := os.WriteFile(wrong, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[right] = wrong
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o644)
}

func (b *bench) binary(pkg string) string {
	return filepath.Join(b.dir, filepath.Base(filepath.Join("root", pkg))+".test")
}

func (b *bench) build(overlay, pkg string) error {
	c := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", b.binary(pkg), "./"+pkg)
	c.Dir = b.suite.dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))
	}
	return nil
}

// patience is how long one layer may take; a mutant that hangs is caught, too.
const patience = 3 * time.Minute

// passes runs a layer and reports whether it succeeded in time.
func (b *bench) passes(l layer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, b.binary(l.pkg), append(slices.Clone(l.args), "-test.failfast")...)
	c.Dir = filepath.Join(b.suite.dir, l.pkg)
	out, err := c.CombinedOutput()
	if err != nil {
		b.said = string(out)
	}
	return err == nil
}
