package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func lookedAt(t *testing.T, when time.Time, allowed, denied string) *looked {
	t.Helper()
	l, err := newLooked([]byte(`{"at":"2026-11-20T12:00:00Z","keys":"shown","since":"2026-11-20T11:51:00Z",
		"top":[{"policy":"search","key":{"user":"\u001b[2Jann","ip":"1"},"clipped":true,"denials":12,"error":3},{"policy":"all","key":{},"denials":9,"error":0}],
		"policies":[{"policy":"search","allowed":`+allowed+`,"denied":`+denied+`,"would_deny":0,"errors":1}]}`), "http://127.0.0.1:7070", when)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTopPage(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first, second := lookedAt(t, noon, "10", "4"), lookedAt(t, noon.Add(2*time.Second), "15", "4")
	page := second.page(first, strings.ToUpper)
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
	if restarted := lookedAt(t, noon.Add(2*time.Second), "3", "0").page(second, strings.ToUpper); !strings.Contains(restarted, "search        3   -       0   -") {
		t.Errorf("counters that began anew have no rates:\n%s", restarted)
	}
}

// TestTopOnATerminal: it is redrawn in place, and given back as it was; elsewhere no
// control character is written.
func TestTopOnATerminal(t *testing.T) {
	l := lookedAt(t, time.Now(), "1", "1")
	var b bytes.Buffer
	s := &screen{out: &b, o: &topOptions{}, terminal: true, bold: true}
	s.show(l, nil)
	s.show(l, l)
	s.leave()
	s.leave()
	text := b.String()
	if strings.Count(text, noWrap) != 1 || strings.Count(text, wrap) != 1 || !strings.HasSuffix(text, wrap) ||
		!strings.Contains(text, bold+"POLICY") || strings.Contains(text, "\x1b[2J") || strings.Contains(strings.ReplaceAll(text, "\x1b[K\n", ""), "\n") {
		t.Errorf("on a terminal: %q", text)
	}
	b.Reset()
	t.Setenv("NO_COLOR", "")
	plain := newScreen(&b, &topOptions{})
	plain.show(l, nil)
	plain.show(l, l)
	plain.leave()
	if strings.Contains(b.String(), "\x1b") || strings.Count(b.String(), "POLICY  ALLOWED") != 2 {
		t.Errorf("elsewhere: %q", b.String())
	}
}

func TestSparse(t *testing.T) {
	s := sparse{every: 10 * time.Second}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after  time.Duration
		unsaid int
		ok     bool
	}{{0, 0, true}, {time.Second, 0, false}, {9 * time.Second, 0, false}, {10 * time.Second, 2, true}, {11 * time.Second, 0, false}, {time.Hour, 1, true}, {2 * time.Hour, 0, true}} {
		if unsaid, ok := s.now(noon.Add(c.after)); unsaid != c.unsaid || ok != c.ok {
			t.Errorf("after %v: %d, %v; want %d, %v", c.after, unsaid, ok, c.unsaid, c.ok)
		}
	}
}
