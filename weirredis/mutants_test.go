package weirredis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	runMutants = flag.Bool("weirredis.mutants", false, "put one fault at a time into the engine and demand that a test notices: takes half an hour")
	allLayers  = flag.Bool("weirredis.layers", false, "with mutants: ask all layers of tests, not only up to the first that notices")
	onlyMutant = flag.String("weirredis.mutant", "", "run only the mutants whose description or file contains this")
)

// TestMutants tests the tests: it puts the faults of testdata/mutants.txt one at a
// time into the scripts or the Go code, and fails when nobody notices. Files stay
// as they are: the go command is told to read others in their place.
//
//	go test ./weirredis -run '^TestMutants$' -timeout 0 -v -args -weirredis.mutants
func TestMutants(t *testing.T) {
	if !*runMutants {
		t.Skip("takes half an hour: run it with -args -weirredis.mutants")
	}
	b := &bench{dir: t.TempDir()}
	if caught, err := b.try(nil); err != nil || len(caught) > 0 {
		t.Fatalf("the tests must pass without a mutant first: %v, %v failed:\n%s", err, caught, b.said)
	}
	list := mutants(t)
	tried, survivors := 0, 0
	for i := range list {
		m := &list[i]
		if !strings.Contains(m.about+m.file, *onlyMutant) {
			continue
		}
		start := time.Now()
		caught, err := b.try(m)
		if err != nil {
			t.Errorf("mutants.txt:%d: %s: %v", m.line, m.about, err)
			continue
		}
		tried++
		verdict := strings.Join(caught, " ")
		if len(caught) == 0 {
			survivors++
			verdict = "SURVIVED"
			t.Errorf("mutants.txt:%d: nobody notices: %s", m.line, m.about)
		}
		t.Logf("%-88s %-30s %4.0fs", m.about, verdict, time.Since(start).Seconds())
	}
	t.Logf("%d mutants, %d caught", tried, tried-survivors)
}

// bench builds and runs the tests while one file is wrong.
type bench struct {
	dir  string // for what is built
	said string // what the last failing layer said
}

// layer is a part of the tests: the package below weirredis it is in, and the
// arguments of its test binary.
type layer struct {
	name, pkg string
	args      []string
}

// layers in the order in which they are asked.
var layers = []layer{
	{"vectors", ".", []string{"-test.run=^TestConformance$/^rueidis$/^vectors$"}},
	{"differential", ".", []string{"-test.run=^TestLongHistories$/./^differential$|^TestConformance$/^rueidis$/^differential$", "-weirtest.attempts=20000"}},
	{"unit", ".", []string{"-test.skip=^Test(Conformance|LongHistories|SeveralProcesses|Mutants.*)$"}},
	{"unit", "goredisconn", nil},
	{"unit", "rueidisconn", nil},
	{"hammer", ".", []string{"-test.run=^TestConformance$/./^hammer$|^TestSeveralProcesses$/^hammer$", "-weirtest.hammers=20"}},
}

// try runs the layers with the mutant in place, or without one for nil, and
// returns those that failed: the first one only, unless all are asked.
func (b *bench) try(m *mutant) (caught []string, err error) {
	overlay, err := b.overlay(m)
	if err != nil {
		return nil, err
	}
	built := map[string]bool{}
	for _, l := range layers {
		if slices.Contains(caught, l.name) || len(caught) > 0 && !*allLayers {
			continue
		}
		if !built[l.pkg] {
			if err := b.build(overlay, l.pkg); err != nil {
				return nil, err
			}
			built[l.pkg] = true
		}
		if !b.passes(l) {
			caught = append(caught, l.name)
		}
	}
	return caught, nil
}

// overlay writes the mutant's file, and the file that tells the go command to read
// it in place of the right one.
func (b *bench) overlay(m *mutant) (string, error) {
	replace := map[string]string{}
	if m != nil {
		path, text, err := m.apply()
		if err != nil {
			return "", err
		}
		wrong := filepath.Join(b.dir, "wrong"+filepath.Ext(path))
		if err := os.WriteFile(wrong, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[path] = wrong
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o644)
}

func (b *bench) binary(pkg string) string {
	return filepath.Join(b.dir, filepath.Base(filepath.Join("weirredis", pkg))+".test")
}

func (b *bench) build(overlay, pkg string) error {
	out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", b.binary(pkg), "./"+pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))
	}
	return nil
}

// mutantPatience is how long one layer may take; a mutant that hangs is caught, too.
const mutantPatience = 3 * time.Minute

// passes runs a layer and reports whether it succeeded in time.
func (b *bench) passes(l layer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), mutantPatience)
	defer cancel()
	c := exec.CommandContext(ctx, b.binary(l.pkg), append(slices.Clone(l.args), "-test.failfast")...)
	c.Dir = l.pkg
	out, err := c.CombinedOutput()
	if err != nil {
		b.said = string(out)
	}
	return err == nil
}
