package docs_test

import (
	"encoding/csv"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// figures are the cells of the README's comparison that come from bench/results.csv: the row
// there, the table and the column of the results, and README column=result row in pairs.
var figures = []struct{ row, table, column, contestants string }{
	{mostInWindow, "What “20 per second” lets through", "× limit", inMemory},
	{mostInWindow, "What is let through", "× limit", "redis_rate=redis_rate"},
	{"memory: time, 30 entries a key", processor, "10,000 keys, 30 live, granted, 1 goroutine", inMemory},
	{"memory: the same, 8 goroutines", processor, "10,000 keys, 30 live, granted, 8 goroutines", inMemory},
	{oneEntry, "Heap and collector, 1,000,000 keys of one entry", "heap bytes a key", inMemory},
	{hundredEntries, "Heap of a key by its entries", "heap bytes a key", "Weir=weir, 100 entries|go-rate=beefsack/go-rate, 100 entries"},
	{"Redis: decisions a second, 64 callers", "10,000 keys: decisions a second, by callers", "64",
		"Weir=weir, rueidis|redis_rate=redis_rate|throttled=throttled|ulule=ulule/limiter"},
	{"Redis: bytes a key, 10 entries", "Bytes stored", "N = 10", "Weir=weir, caller's clock|redis_rate=redis_rate"},
}

const (
	mostInWindow   = "most in one window, × Max"
	oneEntry       = "memory: bytes a key, 1 entry"
	hundredEntries = "memory: bytes a key, 100 entries"
	processor      = "Processor time of a decision, Weir = 1.00"
	inMemory       = "Weir=weir|go-rate=beefsack/go-rate|x/time/rate=x/time/rate|throttled=throttled|ulule=ulule/limiter"
)

// TestReadmeComparison checks that the figures of the README's comparison are those of
// bench/results.csv, rounded, and that every other figure there has a reason.
func TestReadmeComparison(t *testing.T) {
	readme := read(t, "README.md")
	lines := must.Get(csv.NewReader(strings.NewReader(read(t, "bench/results.csv"))).ReadAll())(t)
	results := map[string]string{} // by section, table, row and column, and without the section
	for _, v := range lines {
		results[strings.Join(v[:4], "|")], results[strings.Join(v[1:4], "|")] = v[4], v[4]
	}
	table := tableBelow(t, readme, "## Compared")
	measured := map[string]bool{}
	for _, f := range figures {
		for pair := range strings.SplitSeq(f.contestants, "|") {
			column, result, _ := strings.Cut(pair, "=")
			got, want := cell(t, table, f.row, column), plain(results[f.table+"|"+result+"|"+f.column])
			want = want[strings.LastIndex(want, "; ")+1:] // some cells hold several figures; the last one is per key
			places := 0
			if _, fraction, ok := strings.Cut(got, "."); ok {
				places = len(fraction)
			}
			if math.Abs(number(t, got)-number(t, want)) > 0.5*math.Pow10(-places)+1e-9 {
				t.Errorf("the README has %s for %s of %s; bench/results.csv has %s", got, f.row, column, want)
			}
			measured[f.row+"|"+column] = true
		}
	}
	// A bucket or a counter has one number for each key, however many units count.
	for _, column := range []string{"x/time/rate", "throttled", "ulule"} {
		one, hundred := cell(t, table, oneEntry, column), cell(t, table, hundredEntries, column)
		if one != hundred {
			t.Errorf("the README has %s and %s bytes for one and 100 entries of %s, which keeps one number", one, hundred, column)
		}
		measured[hundredEntries+"|"+column] = true
	}
	// Fixed windows allow twice the limit across an edge.
	for _, column := range []string{"Envoy ratelimit", "express-rate-limit"} {
		if got := cell(t, table, mostInWindow, column); got != "2" {
			t.Errorf("the README has %s for %s, want 2", got, column)
		}
		measured[mostInWindow+"|"+column] = true
	}
	for _, section := range []string{"What “20 per second” lets through", "What a decision costs in process", "What a decision costs on Redis"} {
		day, commit := results[section+"|run|measured|"], results[section+"|run|commit|"]
		if len(day) < 10 || len(commit) < 7 || !strings.Contains(readme, day[:10]) || !strings.Contains(readme, commit[:7]) {
			t.Errorf("the README does not name day and commit of the section %q: %q, %q", section, day, commit)
		}
	}
	for _, row := range table[1:] {
		for i, text := range row[1:] {
			if key := row[0] + "|" + plain(table[0][i+1]); strings.ContainsAny(text, "0123456789") && !measured[key] {
				t.Errorf("the README's %s has the figure %s without a source", key, text)
			}
		}
	}
}

// tableBelow returns the cells of the first table below a heading, without the line of
// dashes.
func tableBelow(t *testing.T, page, heading string) [][]string {
	t.Helper()
	_, text, ok := strings.Cut(page, heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	rows := strings.Split(strings.TrimSpace(tableOnPage.FindString(text)), "\n")
	table := [][]string{cells(rows[0])}
	for _, row := range rows[2:] {
		table = append(table, cells(row))
	}
	return table
}

// cell returns a cell of a table, without bold and marks.
func cell(t *testing.T, table [][]string, row, column string) string {
	t.Helper()
	for _, r := range table {
		if plain(r[0]) != plain(row) {
			continue
		}
		for i, name := range table[0] {
			if plain(name) == plain(column) && i < len(r) {
				return plain(r[i])
			}
		}
	}
	t.Fatalf("no cell in row %q and column %q", row, column)
	return ""
}

// plain removes marks that do not belong to a cell's text.
func plain(cell string) string {
	return strings.TrimSpace(strings.NewReplacer("*", "", "◄", "", "[", "", "]", "").Replace(cell))
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	return must.Get(strconv.ParseFloat(strings.TrimSpace(strings.ReplaceAll(text, ",", "")), 64))(t)
}
