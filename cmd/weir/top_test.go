package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestTopPage(t *testing.T) {
	list, err := parseTop([]byte(`{"at":"2026-11-20T12:00:00Z","keys":"shown","since":"2026-11-20T11:51:00Z",
		"top":[{"policy":"search","key":{"user":"\u001b[2Jann","ip":"1"},"clipped":true,"denials":12,"error":3},{"policy":"all","key":{},"denials":9,"error":0}],
		"policies":[{"policy":"search","allowed":15,"denied":4,"would_deny":0,"errors":1}]}`), "http://127.0.0.1:7070")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(list.page(), "\n\n")
	want := `POLICY  ALLOWED  DENIED  WOULD DENY  ERRORS
search       15       4           0       1

DENIALS  ±  POLICY  KEY
     12  3  search  ip=1 user="\x1b[2Jann" …
      9  0  all     (all callers)
`
	if tables != want {
		t.Errorf("got\n%swant\n%s", tables, want)
	}
}

// TestTopPageIsThatOfTheManual: docs/metrics.md shows a page as it is printed.
func TestTopPageIsThatOfTheManual(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 4, 5, 0, time.Local)
	since := time.Date(2026, 11, 20, 14, 51, 40, 0, time.Local).Format(time.RFC3339)
	list, err := parseTop([]byte(`{"at":"`+now.Format(time.RFC3339)+`","keys":"shown","since":"`+since+`",
		"top":[{"policy":"search","key":{"ip":"192.0.2.7"},"denials":961,"error":0},{"policy":"search","key":{"ip":"198.51.100.23"},"denials":48,"error":2}],
		"policies":[{"policy":"search","allowed":4811,"denied":1033,"would_deny":0,"errors":0}]}`), "http://127.0.0.1:7070")
	if err != nil {
		t.Fatal(err)
	}
	page := list.page()
	manual, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "$ weir top\n"+page+"```") {
		t.Errorf("docs/metrics.md does not show\n%s", page)
	}
}
