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

// On a terminal top redraws in place. Elsewhere it writes no control characters.
func TestTopRedrawsOnTerminalOnly(t *testing.T) {
	l := answerAt(t, time.Now(), "1", "1")
	var b bytes.Buffer
	s := onTerminal(&b, 0, 0)
	s.show(l, nil)
	s.show(l, l)
	text := b.String()
	if strings.Count(text, home) != 2 || strings.Count(text, clearRest) != 2 || strings.Contains(strings.ReplaceAll(text, clearLine+"\n", ""), "\n") {
		t.Errorf("on a terminal: %q", text)
	}
	b.Reset()
	plain := newScreen(&b, &topOptions{})
	plain.show(l, nil)
	plain.show(l, l)
	if strings.Contains(b.String(), "\x1b") || strings.Count(b.String(), "POLICY  ALLOWED") != 2 {
		t.Errorf("elsewhere: %q", b.String())
	}
}

// onTerminal returns a screen on a terminal of that size.
func onTerminal(b *bytes.Buffer, columns, rows int) *screen {
	return &screen{out: b, o: &topOptions{interval: 2 * time.Second}, size: func() (int, int) { return columns, rows }}
}

// A page that is longer or wider than the terminal is cut, so that the headings stay visible.
func TestTopCutsPageToTerminal(t *testing.T) {
	l := answerAt(t, time.Now(), "1", "1")
	all := strings.Count(l.page(nil), "\n")
	for rows, want := range map[int]int{0: all, 1: 1, 2: 1, 4: 3, all: all - 1, all + 1: all, 100: all} {
		var b bytes.Buffer
		onTerminal(&b, 20, rows).show(l, nil)
		lines := strings.Split(strings.TrimSuffix(b.String(), clearLine+"\n"+clearRest), clearLine+"\n")
		if len(lines) != want || !strings.HasPrefix(lines[0], home+"weir at ") || len(lines[0]) != len(home)+20 {
			t.Errorf("%d rows of 20 columns: %d lines, want %d: %q", rows, len(lines), want, b.String())
		}
	}
}

// On a terminal top waits for a weir that is restarted, and keeps the last page.
func TestTopWaitsForRestart(t *testing.T) {
	l := answerAt(t, time.Now(), "1", "1")
	var b bytes.Buffer
	s := onTerminal(&b, 0, 0)
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
		{newScreen(&b, s.o), l, gone, false}, // not a terminal
	} {
		if waits := c.on.waitsFor(c.last, c.err); waits != c.want {
			t.Errorf("%+v after %v: waits %v", c.on, c.err, waits)
		}
	}
	text := strings.ReplaceAll(b.String(), clearLine, "")
	if !strings.Contains(text, "weir at http://127.0.0.1:7070 has not answered since ") || !strings.Contains(text, "trying again every 2s") || strings.Count(text, "POLICY  ALLOWED") != 1 {
		t.Errorf("%q", text)
	}
}
