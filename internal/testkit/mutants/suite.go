package main

import (
	"bytes"
	"cmp"
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
	limit     time.Duration // of a run with a mutant; 0 until a run without one was timed
}

//go:embed memory.txt
var memoryList string

var memory = suite{
	file: "memory.txt", list: memoryList, dir: ".",
	layers: []layer{
		{name: "vectors", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^vectors$"}},
		{name: "differential", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^differential$", "-weirtest.attempts=100000"}},
		{name: "instants", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^instants$"}},
		{name: "hammer", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=40"}},
		{name: "live", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^live$", "-weirtest.hammers=8"}},
		{name: "together", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^together$"}},
		{name: "once", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^once$", "-test.count=20"}},
		{name: "unit", pkg: ".", args: []string{"-test.run=^Test(R1|R7|NoA|Sweep|Virtual|Keys|Wait|Through|Periods|Bucket|Together)"}},
		{name: "unit", pkg: "engine"},
		{name: "unit", pkg: "internal/memory", args: []string{"-test.skip=^TestMemoryConformance"}},
		{name: "unit", pkg: "internal/keytable"},
		{name: "unit", pkg: "internal/window"},
		{name: "hammer", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=400"}},
	},
}

//go:embed batches.txt
var batchesList string

var batches = suite{
	file: "batches.txt", list: batchesList, dir: ".",
	layers: []layer{
		{name: "unit", pkg: ".", args: []string{"-test.run=^TestBatch"}},
		{name: "batches", pkg: "internal/memory", args: []string{"-test.run=^TestMemoryConformance$/^batches$"}},
		{name: "enforce", pkg: "internal/enforce", args: []string{"-test.run=Batches|Blocks|Crosses|Each|Together|Traces|Wait|Shadow|Warn"}},
		{name: "http", pkg: "cmd/weir/internal/server", args: []string{"-test.run=^Test(Checks|BadBatches|Batches|Reservations|Inline|FilesHave)|^TestScripts$/(inline|waits|bad-waits)"}},
		{name: "names", pkg: "cmd/weir/internal/reserve"},
		{name: "inline", pkg: "cmd/weir/internal/inline"},
		{name: "envoy", pkg: "cmd/weir/internal/front/envoy", args: []string{"-test.run=^TestReservations"}},
		{name: "traces", pkg: "cmd/weir/internal/logs/replay", args: []string{"-test.run=^TestParserAgrees|^TestSample"}},
		{name: "recorder", pkg: "cmd/weir/internal/recorder", args: []string{"-test.run=^TestWaits|^TestCallsAre"}},
		{name: "answers", pkg: "internal/answer", args: []string{"-test.run=^TestWhy$|^TestAppendJSON"}},
		{name: "policies", pkg: "policy", args: []string{"-test.run=Bad|Good"}},
	},
}

//go:embed library.txt
var libraryList string

var library = suite{
	file: "library.txt", list: libraryList, dir: ".",
	layers: []layer{
		{name: "unit", pkg: ".", args: []string{"-test.run=Reserv|Add|Extend|Hold|Handle|EachMethod|Faults|Life|Block|Probe|Wait"}},
		{name: "unit", pkg: "fallback", args: []string{"-test.run=Reserv|Share|Block|Answers|Unanswered"}},
		{name: "unit", pkg: "weirhttp", args: []string{"-test.run=CountOnly|Hold|Block|Transport|MaxWait"}},
	},
}

//go:embed redis.txt
var redisList string

var redis = suite{
	file: "redis.txt", list: redisList, dir: "weirredis",
	layers: []layer{
		{name: "vectors", pkg: ".", args: []string{"-test.run=^TestConformance$/^default$/^vectors$"}},
		{name: "differential", pkg: ".", args: []string{"-test.run=^TestConformanceOfLongHistories$/./^differential$|^TestConformance$/^default$/^differential$", "-weirtest.attempts=20000"}},
		{name: "instants", pkg: ".", args: []string{"-test.run=^TestConformance$/^default$/^instants$"}},
		{name: "live", pkg: ".", args: []string{"-test.run=^TestConformance$/./^live$", "-weirtest.hammers=4"}},
		{name: "together", pkg: ".", args: []string{"-test.run=^TestConformance$/./^together$"}},
		{name: "unit", pkg: ".", args: []string{"-test.skip=^TestConformance|^TestJoinedScripts$"}}, // any change of a script fails the latter
		{name: "unit", pkg: "goredisconn"},
		{name: "unit", pkg: "rueidisconn"},
		{name: "hammer", pkg: ".", args: []string{"-test.run=^TestConformance$/./^hammer$|^TestConformanceOfSeveralProcesses$/^hammer$", "-weirtest.hammers=20"}},
	},
}

// A mutant that hangs counts as caught, by its time limit: a layer gets ten times the time that
// it took without a mutant, and at least half a minute. firstLimit bounds that first run.
const (
	timesAsLong = 10
	leastLimit  = 30 * time.Second
	firstLimit  = 10 * time.Minute
)

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
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(l.limit, firstLimit))
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
		case m == nil:
			l.limit = max(leastLimit, timesAsLong*time.Since(start))
		}
	}
	return "", nil, nil
}

// inOrder returns the layers, with the unit tests of the mutant's package first, because these
// mostly fail in a few seconds.
func (s *suite) inOrder(m *mutant) []*layer {
	var first, others []*layer
	for i := range s.layers {
		l := &s.layers[i]
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
