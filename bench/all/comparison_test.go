package main

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// readmeRows are the rows of the README's comparison that come from results.csv. The names in
// columns are those of the README, behind them stand those of the results.
var readmeRows = []struct {
	row           string
	table, column string // in results.csv
	columns       map[string]string
}{
	{"most in one window, × Max", "What “20 per second” lets through", "× limit", inProcess},
	{"most in one window, × Max", "What is let through", "× limit", map[string]string{"redis_rate": "redis_rate"}},
	{"memory: time, 30 entries a key", timeTable, "10,000 keys, 30 live, granted, 1 goroutine", inProcess},
	{"memory: the same, 8 goroutines", timeTable, "10,000 keys, 30 live, granted, 8 goroutines", inProcess},
	{"memory: bytes a key, 1 entry", "Heap and collector, 1,000,000 keys of one entry", "heap bytes a key", inProcess},
	{"memory: bytes a key, 100 entries", "Heap of a key by its entries", "heap bytes a key",
		map[string]string{"Weir": "weir, 100 entries", "go-rate": "beefsack/go-rate, 100 entries"}},
	{"Redis: decisions a second, 64 callers", "10,000 keys: decisions a second, by callers", "64",
		map[string]string{"Weir": "weir, rueidis", "redis_rate": "redis_rate", "throttled": "throttled", "ulule": "ulule/limiter"}},
	{"Redis: bytes a key, 10 entries", "Bytes stored", "N = 10",
		map[string]string{"Weir": "weir, caller's clock", "redis_rate": "redis_rate"}},
}

const timeTable = "Processor time of a decision, Weir = 1.00"

var inProcess = map[string]string{
	"Weir": "weir", "go-rate": "beefsack/go-rate", "x/time/rate": "x/time/rate", "throttled": "throttled", "ulule": "ulule/limiter",
}

// TestReadmeComparison: the figures of the README's comparison are those of results.csv, rounded.
func TestReadmeComparison(t *testing.T) {
	readme := readText(t, "../../README.md")
	lines, err := csv.NewReader(strings.NewReader(readText(t, "../results.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]string{} // by table, row and column
	for _, v := range lines {
		results[strings.Join(v[1:4], "|")] = v[4]
	}
	shown := tableOf(readme, "## Compared")
	for _, f := range readmeRows {
		for column, contestant := range f.columns {
			got, result := shown[f.row][column], results[f.table+"|"+contestant+"|"+f.column]
			want := result[strings.LastIndex(result, "; ")+1:] // the last of several figures is per key
			_, fraction, _ := strings.Cut(got, ".")
			if math.Abs(parseFigure(t, got)-parseFigure(t, want)) > 0.5*math.Pow10(-len(fraction))+1e-9 {
				t.Errorf("README.md has %s for %s of %s; results.csv has %s", got, f.row, column, want)
			}
		}
	}
}

// tableOf returns the cells of the first table below a heading, by row and column.
func tableOf(page, heading string) map[string]map[string]string {
	cells := func(line string) []string {
		all := strings.Split(strings.Trim(strings.NewReplacer("*", "", "◄", "").Replace(line), "|"), "|")
		for i := range all {
			all[i] = strings.TrimSpace(all[i])
		}
		return all
	}
	_, text, _ := strings.Cut(page, heading+"\n")
	_, text, _ = strings.Cut(text, "\n|")
	text, _, _ = strings.Cut(text, "|\n\n")
	lines := strings.Split(text, "\n")
	columns := cells(lines[0])
	table := map[string]map[string]string{}
	for _, line := range lines[1:] {
		row := cells(line)
		table[row[0]] = map[string]string{}
		for i := 1; i < len(row) && i < len(columns); i++ {
			table[row[0]][columns[i]] = row[i]
		}
	}
	return table
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parseFigure(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.Trim(text, " ◄*"), ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
