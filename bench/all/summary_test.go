package main

import (
	"os"
	"strings"
	"testing"
)

func TestSummaryHasTheFiguresOfTheSections(t *testing.T) {
	page := "# Results\n\nhead\n\n## Machine\n\nm\n\n## " + sections[1].title + "\n\n" +
		"Command: `go run ./speed`, in 1m1s, on 2026-11-20 12:30 UTC, commit abc123 with uncommitted changes, load before 0, 0, 0.\n\n" +
		"| contestant | a | b | c |\n| x/time/rate | 1 | 2 | **3** |\n| quick | 0.5 ◄ | 2 | 0.9 ◄ |\n| x/time/rate | 4 | 5 | 6 |\n\n" +
		"| goal | bound | measured | met |\n| a | 1 | 1 | yes |\n| b | 1 | 2 | **no** |\n"
	got := withSummary(page)
	for _, want := range []string{"# Results\n\nhead\n\n## Summary\n", "x/time/rate 3,", "plain exact log –. **◄ Weir is behind** in cells of quick (2) |", "| 1 of 2 | 2026-11-20 | abc123 with uncommitted changes |\n\n## Machine\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if again := withSummary(got); again != got {
		t.Errorf("a second summary changes the page:\n%s", again)
	}
}

// The committed page has the summary of its own sections, and no figure is missing.
func TestResultsHaveTheirSummary(t *testing.T) {
	text, err := os.ReadFile("../" + results)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if withSummary(page) != page {
		t.Errorf("the summary of %s is not that of its sections; run go run ./all -summary", results)
	}
	if summary := sectionOf(page, summaryTitle); summary == "" || strings.Contains(summary, " –,") || strings.Contains(summary, "–;") || strings.Contains(summary, "| – | – |\n") {
		t.Errorf("a figure, a day or a commit is missing:\n%s", summary)
	}
}
