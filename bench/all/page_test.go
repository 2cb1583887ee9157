package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/bench/internal/machine"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/redispeers"
)

func TestCellsNameMachineAndContestants(t *testing.T) {
	m := machine.Machine{CPU: "Quick 9000", Cores: 2, Memory: "4 kB", OS: "An OS", Go: "go1.26", Commit: "abc123", Load: "0, 0, 0"}
	run := runCells("S", m, "go run ./speed", time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC), 61_400*time.Millisecond)
	text := string(csvOf(slices.Concat(machineCells(m), contestantCells(), run)))
	want := []string{
		"Machine,,processor,,\"Quick 9000, 2 cores\"\n", ",Go,,go1.26\n",
		"S,run,command,,go run ./speed\n", "S,run,took,,1m1s\n", "S,run,measured,,2026-11-20 12:30 UTC\n", "S,run,commit,,abc123\n",
	}
	for _, p := range peers.All() {
		want = append(want, p.Module)
	}
	for _, p := range redispeers.All() {
		want = append(want, p.Module)
	}
	for _, a := range peers.Absent() {
		want = append(want, a.Module)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the cells lack %q:\n%s", w, text)
		}
	}
}

func TestPrintedTablesBecomeCells(t *testing.T) {
	const output = `One line.

| contestant | a | b |
| --- | --- | --- |
| weir | 1 | 2 ◄ |
| x\|y |  | 3 |

### Second

| callers | way | µs |
| --- | --- | --- |
| 16 | gRPC | 5 |
| 16 | HTTP | 6 |

- a note

| goal | bound | measured | met |
| --- | --- | --- | --- |
| fast | ≤ 1 | 0.50 | yes |
`
	want := []cell{
		{"S", "S", "note", "", "One line."},
		{"S", "S", "weir", "a", "1"}, {"S", "S", "weir", "b", "2 ◄"},
		{"S", "S", "x|y", "a", ""}, {"S", "S", "x|y", "b", "3"},
		{"S", "Second", "16 | gRPC", "µs", "5"}, {"S", "Second", "16 | HTTP", "µs", "6"},
		{"S", "Second", "note", "", "- a note"},
		{"S", "Goals", "fast", "bound", "≤ 1"}, {"S", "Goals", "fast", "measured", "0.50"}, {"S", "Goals", "fast", "met", "yes"},
	}
	if got := printed("S", output); !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestOneSectionIsReplaced: the others stay unchanged, and the order is that of the page.
func TestOneSectionIsReplaced(t *testing.T) {
	a, b := sections[0].title, sections[1].title
	before := []cell{{theMachine, "", "Go", "", "go1"}, {a, "t", "r", "c", "1"}, {b, "t", "r", "c", "2"}, {b, "t", "r2", "c", "3"}}
	got := merged(before, []cell{{b, "t", "r", "c", "4"}, {contestants, "t", "r", "c", "5"}})
	want := []cell{before[0], {contestants, "t", "r", "c", "5"}, before[1], {b, "t", "r", "c", "4"}}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestContestantsAheadOfWeir(t *testing.T) {
	cells := printed("S", `
| contestant | a | b |
| --- | --- | --- |
| weir | 1.00; 5 | 2,000 |
| weir, other | 0.50 | 1 |
| loop | 0.10 | 1 |
| same | 1.00 | 2,000 |
| near | 0.90; 7 | – |
| best | 0.80 ◄ | 3,000 |
`)
	for _, c := range []struct {
		column string
		more   bool
		want   string
	}{
		{"a", false, "best 0.8; near 0.9"},
		{"a", true, ""},
		{"b", false, ""},
		{"b", true, "best 3000"},
		{"c", true, ""},
	} {
		if got := (comparison{weir: "weir", more: c.more}).ahead(cells, c.column); got != c.want {
			t.Errorf("column %s, more is better %v: got %q, want %q", c.column, c.more, got, c.want)
		}
	}
}

// TestPageIsThatOfItsCells: the committed page is written from the committed cells, it is
// short, and no figure, day or compared table is missing.
func TestPageIsThatOfItsCells(t *testing.T) {
	cells, err := readCells("../" + raw)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../" + results)
	if err != nil {
		t.Fatal(err)
	}
	if page(cells, false) != string(text) {
		t.Errorf("%s is not the page of %s; run go run ./all -page", results, raw)
	}
	if n := strings.Count(string(text), "\n"); n > 200 {
		t.Errorf("%s has %d lines, want at most 200", results, n)
	}
	_, summary, _ := strings.Cut(string(text), "## Summary")
	summary, _, _ = strings.Cut(summary, "\n## ")
	for _, missing := range []string{" –,", "–;", "| – | – |\n", "Weir – "} {
		if strings.Contains(summary, missing) {
			t.Errorf("a figure, a day or a commit is missing:\n%s", summary)
		}
	}
	for _, s := range sections {
		if of(cells, s.title, runTable) == nil {
			t.Logf("%s is not measured; run go run ./all -sections %s", s.title, s.program)
			continue
		}
		for _, c := range s.compared {
			if value(of(cells, s.title, c.table), c.weir, columns(of(cells, s.title, c.table))[0]) == "–" {
				t.Errorf("%s: %q has no row %q", s.program, c.table, c.weir)
			}
		}
		for _, name := range s.tables {
			if of(cells, s.title, name) == nil {
				t.Errorf("%s: there is no table %q", s.program, name)
			}
		}
	}
}
