package report

import (
	"math"
	"strings"
	"testing"
)

func TestGoals(t *testing.T) {
	var got strings.Builder
	Goals(&got, []Goal{
		{Text: "cost", Bound: 0.7, AtMost: true, Measured: 0.614, Where: " (N = 10)"},
		{Text: "most", Bound: 2, AtMost: true, Measured: 2},
		{Text: "more", Bound: 2, AtMost: true, Measured: 2.01},
		{Text: "least", Bound: 1.3, Measured: 1.3},
		{Text: "less", Bound: 1.3, Measured: 1.29},
		{Text: "none", Bound: 1. / 3, AtMost: true, Measured: math.NaN()},
	})
	const want = `| goal | bound | measured | met |
| --- | --- | --- | --- |
| cost | ≤ 0.7 | 0.61 (N = 10) | yes |
| most | ≤ 2 | 2.00 | yes |
| more | ≤ 2 | 2.01 | **no** |
| least | ≥ 1.3 | 1.30 | yes |
| less | ≥ 1.3 | 1.29 | **no** |
| none | ≤ 0.3333 | – | not measured |
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestCount(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.4: "1,234,567", -100: "-100", -1000: "-1,000"} {
		if got := Count(v); got != want {
			t.Errorf("Count(%v) = %s, want %s", v, got, want)
		}
	}
	if got := Count(math.NaN()); got != "–" {
		t.Errorf("Count(NaN) = %s, want a dash", got)
	}
}

func TestTable(t *testing.T) {
	table := Table("name", "value")
	table.Row("a|b", "1")
	table.Row("short")
	var got strings.Builder
	table.Print(&got)
	want := "| name | value |\n| --- | --- |\n| a\\|b | 1 |\n| short |  |\n"
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}
