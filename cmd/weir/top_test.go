package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func answerAt(t *testing.T, when time.Time, allowed, denied string) *topAnswer {
	t.Helper()
	l, err := parseTop([]byte(`{"at":"2026-11-20T12:00:00Z","keys":"shown","since":"2026-11-20T11:51:00Z",
		"top":[{"policy":"search","key":{"user":"\u001b[2Jann","ip":"1"},"clipped":true,"denials":12,"error":3},{"policy":"all","key":{},"denials":9,"error":0}],
		"policies":[{"policy":"search","allowed":`+allowed+`,"denied":`+denied+`,"would_deny":0,"errors":1}]}`), "http://127.0.0.1:7070", when)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTopPage(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first, second := answerAt(t, noon, "10", "4"), answerAt(t, noon.Add(2*time.Second), "15", "4")
	page := second.page(first)
	_, tables, _ := strings.Cut(page, "\n\n")
	want := `POLICY  ALLOWED   /S  DENIED   /S  WOULD DENY  ERRORS
search       15  2.5       4  0.0           0       1

DENIALS  ±  POLICY  KEY
     12  3  search  ip=1 user="\x1b[2Jann" …
      9  0  all     (all callers)
`
	if tables != want {
		t.Errorf("got\n%swant\n%s", tables, want)
	}
	if restarted := answerAt(t, noon.Add(2*time.Second), "3", "0").page(second); !strings.Contains(restarted, "search        3   -       0   -") {
		t.Errorf("counters that began anew have no rates:\n%s", restarted)
	}
}

// TestTopPageIsThatOfTheManual: docs/metrics.md shows a page as it is printed.
func TestTopPageIsThatOfTheManual(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 4, 5, 0, time.Local)
	since := time.Date(2026, 11, 20, 14, 51, 40, 0, time.Local).Format(time.RFC3339)
	answer := func(when time.Time, allowed, denied string) *topAnswer {
		a, err := parseTop([]byte(`{"at":"`+now.Format(time.RFC3339)+`","keys":"shown","since":"`+since+`",
			"top":[{"policy":"search","key":{"ip":"192.0.2.7"},"denials":961,"error":0},{"policy":"search","key":{"ip":"198.51.100.23"},"denials":48,"error":2}],
			"policies":[{"policy":"search","allowed":`+allowed+`,"denied":`+denied+`,"would_deny":0,"errors":0}]}`), "http://127.0.0.1:7070", when)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	page := answer(now, "4811", "1033").page(answer(now.Add(-2*time.Second), "4786", "1019"))
	manual, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "$ weir top\n"+page+"```") {
		t.Errorf("docs/metrics.md does not show\n%s", page)
	}
}

// On a terminal top redraws in place and restores the modes. Elsewhere it writes no
// control characters.
func TestTopRedrawsOnTerminalOnly(t *testing.T) {
	l := answerAt(t, time.Now(), "1", "1")
	var b bytes.Buffer
	s := &screen{out: &b, o: &topOptions{}, terminal: true, rows: func() int { return 0 }}
	s.show(l, nil)
	s.show(l, l)
	s.restore()
	s.restore()
	text := b.String()
	if strings.Count(text, noWrap) != 1 || strings.Count(text, wrap) != 1 || !strings.HasSuffix(text, wrap) ||
		strings.Contains(text, "\x1b[2J") || strings.Contains(strings.ReplaceAll(text, "\x1b[K\n", ""), "\n") {
		t.Errorf("on a terminal: %q", text)
	}
	b.Reset()
	plain := newScreen(&b, &topOptions{})
	plain.show(l, nil)
	plain.show(l, l)
	plain.restore()
	if strings.Contains(b.String(), "\x1b") || strings.Count(b.String(), "POLICY  ALLOWED") != 2 {
		t.Errorf("elsewhere: %q", b.String())
	}
}

// A page that is longer than the terminal is cut, so that the headings stay visible.
func TestTopCutsPageToTerminal(t *testing.T) {
	l := answerAt(t, time.Now(), "1", "1")
	all := strings.Count(l.page(nil), "\n")
	for rows, want := range map[int]int{0: all, 1: 1, 2: 1, 4: 3, all: all - 1, all + 1: all, 100: all} {
		var b bytes.Buffer
		s := &screen{out: &b, o: &topOptions{}, terminal: true, rows: func() int { return rows }}
		s.show(l, nil)
		if got := strings.Count(b.String(), "\n"); got != want || !strings.HasPrefix(b.String(), noWrap+home+clearRest+home+"weir at ") {
			t.Errorf("%d rows: %d lines, want %d: %q", rows, got, want, b.String())
		}
	}
}

// On a terminal top waits for a weir that is restarted, and keeps the last page.
func TestTopWaitsForRestart(t *testing.T) {
	l := answerAt(t, time.Now(), "1", "1")
	var b bytes.Buffer
	s := &screen{out: &b, o: &topOptions{interval: 2 * time.Second}, terminal: true, rows: func() int { return 0 }}
	gone := &failure{code: exitStore, err: errors.New("connection refused")}
	for _, c := range []struct {
		on   *screen
		last *topAnswer
		err  error
		want bool
	}{
		{s, l, gone, true},
		{s, nil, gone, false}, // it has never answered
		{s, l, usage("", "unauthorized"), false},
		{&screen{out: &b, o: s.o}, l, gone, false}, // not a terminal
		{&screen{out: &b, o: &topOptions{once: true}, terminal: true}, l, gone, false},
	} {
		if waits := c.on.waitsFor(c.last, c.err); waits != c.want {
			t.Errorf("%+v after %v: waits %v", c.on, c.err, waits)
		}
	}
	if text := b.String(); !strings.Contains(text, "weir at http://127.0.0.1:7070 has not answered since ") || !strings.Contains(text, "trying again every 2s") || strings.Count(text, "POLICY  ALLOWED") != 1 {
		t.Errorf("%q", text)
	}
}
