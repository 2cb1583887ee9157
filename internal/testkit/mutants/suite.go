package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"
)

// suite is an engine with its mutants and its tests.
type suite struct {
	file   string // the name of list
	list   string
	dir    string  // base of file and package names, below the top of the module
	layers []layer // in the order of their runs; the last has more time to find a race
}

// layer is a part of an engine's tests: its package and the arguments of the test
// binary.
type layer struct {
	name, pkg string
	args      []string
}

//go:embed memory.txt
var memoryList string

var memory = suite{
	file: "memory.txt", list: memoryList, dir: ".",
	layers: []layer{
		{"vectors", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^vectors$"}},
		{"differential", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^differential$", "-weirtest.attempts=100000"}},
		{"instants", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^instants$"}},
		{"hammer", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=40"}},
		{"live", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^live$", "-weirtest.hammers=8"}},
		{"together", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^together$"}},
		{"once", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^once$", "-test.count=20"}},
		{"unit", ".", []string{"-test.run=^Test(R1|R7|NoA|Sweep|Virtual|Keys|Wait|Through|Periods|Bucket|Together)"}},
		{"unit", "engine", nil},
		{"unit", "internal/memory", []string{"-test.skip=^TestMemoryConformance"}},
		{"unit", "internal/keytable", nil},
		{"unit", "internal/window", nil},
		{"hammer", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=400"}},
	},
}

//go:embed batches.txt
var batchesList string

var batches = suite{
	file: "batches.txt", list: batchesList, dir: ".",
	layers: []layer{
		{"unit", ".", []string{"-test.run=^TestBatch"}},
		{"batches", "internal/memory", []string{"-test.run=^TestMemoryConformance$/^batches$"}},
		{"enforce", "internal/enforce", []string{"-test.run=Batches|Crosses|Together|Traces|Warn"}},
		{"http", "cmd/weir/internal/server", []string{"-test.run=^Test(Checks|BadBatches|Batches)"}},
	},
}

//go:embed redis.txt
var redisList string

var redis = suite{
	file: "redis.txt", list: redisList, dir: "weirredis",
	layers: []layer{
		{"vectors", ".", []string{"-test.run=^TestConformance$/^default$/^vectors$"}},
		{"differential", ".", []string{"-test.run=^TestConformanceOfLongHistories$/./^differential$|^TestConformance$/^default$/^differential$", "-weirtest.attempts=20000"}},
		{"instants", ".", []string{"-test.run=^TestConformance$/^default$/^instants$"}},
		{"live", ".", []string{"-test.run=^TestConformance$/./^live$", "-weirtest.hammers=4"}},
		{"together", ".", []string{"-test.run=^TestConformance$/./^together$"}},
		{"unit", ".", []string{"-test.skip=^TestConformance"}},
		{"unit", "goredisconn", nil},
		{"unit", "rueidisconn", nil},
		{"hammer", ".", []string{"-test.run=^TestConformance$/./^hammer$|^TestConformanceOfSeveralProcesses$/^hammer$", "-weirtest.hammers=20"}},
	},
}

// layerTimeout bounds the run of one layer. A mutant that hangs counts as caught, by its time
// limit: a busy machine is late, too.
const layerTimeout = 3 * time.Minute

// try runs the layers with a mutant, or without one if m is nil; dir holds its binaries. It
// returns the first layer that failed, "" for none, and its output.
func (s *suite) try(m *mutant, dir string) (caught string, output []byte, err error) {
	overlay, err := s.writeOverlay(m, dir)
	if err != nil {
		return "", nil, err
	}
	built := map[string]bool{}
	for _, l := range s.inOrder(m) {
		binary := filepath.Join(dir, filepath.Base(filepath.Join("root", l.pkg))+".test")
		if !built[l.pkg] {
			build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, "./"+l.pkg)
			build.Dir = s.dir
			if out, err := build.CombinedOutput(); err != nil {
				return "", nil, fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))
			}
			built[l.pkg] = true
		}
		ctx, cancel := context.WithTimeout(context.Background(), layerTimeout)
		test := exec.CommandContext(ctx, binary, append([]string{"-test.failfast"}, l.args...)...)
		test.Dir = filepath.Join(s.dir, l.pkg)
		output, err := test.CombinedOutput()
		late := ctx.Err() != nil
		cancel()
		switch {
		case late:
			return l.name + ", by its time limit", output, nil
		case err != nil:
			return l.name, output, nil
		}
	}
	return "", nil, nil
}

// inOrder returns the layers, with the unit tests of the mutant's package first, because these
// mostly fail in a few seconds.
func (s *suite) inOrder(m *mutant) []layer {
	var first, others []layer
	for _, l := range s.layers {
		if m != nil && l.name == "unit" && l.pkg == path.Dir(m.file) {
			first = append(first, l)
		} else {
			others = append(others, l)
		}
	}
	return append(first, others...)
}

// writeOverlay writes the file with the fault into dir, and the overlay that makes the go
// command read it in place of its source. It returns the name of the overlay.
func (s *suite) writeOverlay(m *mutant, dir string) (string, error) {
	replace := map[string]string{}
	if m != nil {
		source, err := filepath.Abs(filepath.Join(s.dir, m.file))
		if err != nil {
			return "", err
		}
		text, err := m.apply(s.dir)
		if err != nil {
			return "", err
		}
		replace[source] = filepath.Join(dir, "mutated"+filepath.Ext(m.file))
		if err := os.WriteFile(replace[source], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}
