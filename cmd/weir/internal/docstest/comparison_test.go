package docs_test

import (
	"encoding/csv"
	"math"
	"strconv"
	"strings"
	"testing"
)

// figure is a measured cell of the README's comparison.
type figure struct {
	row, column          string // in the README
	table, result, under string // in bench/results.csv: table, row, column
}

// figures returns the cells of the README's comparison that come from bench/results.csv.
func figures() []figure {
	const (
		scoreboard = "What “20 per second” lets through"
		redisMost  = "What is let through"
		processor  = "Processor time of a decision, Weir = 1.00"
		heap       = "Heap and collector, 1,000,000 keys of one entry"
		entries    = "Heap of a key by its entries"
		redisSpeed = "10,000 keys: decisions a second, by callers"
		redisBytes = "Bytes stored"
	)
	const most, oneEntry, hundred = "most in one window, × Max", "memory: bytes a key, 1 entry", "memory: bytes a key, 100 entries"
	const time, speed, stored = "memory: time, 10,000 keys", "Redis: decisions a second, 64 callers", "Redis: bytes a key, 10 entries"
	cells := []figure{
		{most, "redis_rate", redisMost, "redis_rate", "× limit"},
		{hundred, "Weir", entries, "weir, 100 entries", "heap bytes a key"},
		{hundred, "go-rate", entries, "beefsack/go-rate, 100 entries", "heap bytes a key"},
		{speed, "Weir", redisSpeed, "weir, rueidis", "64"},
		{stored, "Weir", redisBytes, "weir, caller's clock", "N = 10"},
		{stored, "redis_rate", redisBytes, "redis_rate", "N = 10"},
	}
	for column, contestant := range map[string]string{
		"Weir": "weir", "go-rate": "beefsack/go-rate", "x/time/rate": "x/time/rate", "throttled": "throttled", "ulule": "ulule/limiter",
	} {
		cells = append(cells,
			figure{most, column, scoreboard, contestant, "× limit"},
			figure{time, column, processor, contestant, "10,000 keys, 1 goroutine"},
			figure{"memory: the same, 8 goroutines", column, processor, contestant, "10,000 keys, 8 goroutines"},
			figure{oneEntry, column, heap, contestant, "heap bytes a key"})
	}
	for _, contestant := range []string{"redis_rate", "throttled", "ulule"} {
		cells = append(cells, figure{speed, contestant, redisSpeed, strings.Replace(contestant, "ulule", "ulule/limiter", 1), "64"})
	}
	return cells
}

// TestReadmeComparison checks that the figures of the README's comparison are those of
// bench/results.csv, rounded, and that every other figure there has a reason.
func TestReadmeComparison(t *testing.T) {
	readme := read(t, "README.md")
	lines, err := csv.NewReader(strings.NewReader(read(t, "bench/results.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]string{} // by section, table, row and column, and without the section
	for _, v := range lines {
		results[strings.Join(v[:4], "|")], results[strings.Join(v[1:4], "|")] = v[4], v[4]
	}
	table := tableBelow(t, readme, "## Compared")
	measured := map[string]bool{}
	for _, f := range figures() {
		got, want := cell(t, table, f.row, f.column), plain(results[f.table+"|"+f.result+"|"+f.under])
		_, want, _ = cutLast(want, "; ") // some cells hold several figures; the last one is per key
		places := 0
		if _, fraction, ok := strings.Cut(got, "."); ok {
			places = len(fraction)
		}
		if g, w := number(t, got), number(t, want); math.Abs(g-w) > 0.5*math.Pow10(-places)+1e-9 {
			t.Errorf("the README has %s for %s of %s; bench/results.csv has %s", got, f.row, f.column, want)
		}
		measured[f.row+"|"+f.column] = true
	}
	// A bucket or a counter has one number for each key, however many units count.
	for _, column := range []string{"x/time/rate", "throttled", "ulule"} {
		one, hundred := cell(t, table, "memory: bytes a key, 1 entry", column), cell(t, table, "memory: bytes a key, 100 entries", column)
		if one != hundred {
			t.Errorf("the README has %s and %s bytes for one and 100 entries of %s, which keeps one number", one, hundred, column)
		}
		measured["memory: bytes a key, 100 entries|"+column] = true
	}
	// Fixed windows allow twice the limit across an edge.
	for _, column := range []string{"Envoy ratelimit", "express-rate-limit"} {
		if got := cell(t, table, "most in one window, × Max", column); got != "2" {
			t.Errorf("the README has %s for %s, want 2", got, column)
		}
		measured["most in one window, × Max|"+column] = true
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
	var table [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if table != nil {
				break
			}
			continue
		}
		if strings.HasPrefix(line, "| ---") {
			continue
		}
		row := strings.Split(strings.Trim(line, "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		table = append(table, row)
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
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cutLast cuts text around its last separator. Without one, after is the whole text.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return "", text, false
}
