package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// answerOf returns an answer of weir to a request that was sent at an instant.
func answerOf(t *testing.T, came time.Time, at, since, top, used, counts string) *topAnswer {
	t.Helper()
	got, err := parseTop([]byte(`{"at":"`+at+`","keys":"shown","since":"`+since+`","top":[`+top+`],`+used+`"policies":[{"policy":"search",`+counts+`}]}`), "http://127.0.0.1:7070", came)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func answerAt(t *testing.T, came time.Time, allowed, denied string) *topAnswer {
	t.Helper()
	return answerOf(t, came, "2026-11-20T12:00:00Z", "2026-11-20T11:51:00Z",
		`{"policy":"search","key":{"user":"\u001b[2Jann","ip":"1"},"clipped":true,"denials":12,"error":3},{"policy":"all","key":{},"denials":9,"error":0}`,
		`"used":[{"policy":"search","key":{"user":"bob"},"clipped":true,"uses":15,"error":1}],"used_sample":4,`,
		`"allowed":`+allowed+`,"denied":`+denied+`,"would_deny":0,"errors":1`)
}

func TestTopPage(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first, second := answerAt(t, noon, "10", "4"), answerAt(t, noon.Add(2*time.Second), "15", "4")
	_, tables, _ := strings.Cut(second.page(first), "\n\n")
	want := `POLICY  ALLOWED   /S  DENIED   /S  WOULD DENY  ERRORS
search       15  2.5       4  0.0           0       1

DENIALS  ±  POLICY  KEY
     12  3  search  ip=1 user="\x1b[2Jann" …
      9  0  all     (all callers)

USES  ±  POLICY  KEY
  15  1  search  user=bob …
uses of a busy policy are estimates, by one call in 4 at least
`
	if tables != want {
		t.Errorf("got\n%swant\n%s", tables, want)
	}
	if restarted := answerAt(t, noon.Add(2*time.Second), "3", "0").page(second); !strings.Contains(restarted, "search        3   -       0   -") {
		t.Errorf("counters that started again have no rates:\n%s", restarted)
	}
}

// TestTopPageIsThatOfTheManual: the page in docs/metrics.md is printed in exactly that form.
func TestTopPageIsThatOfTheManual(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 4, 5, 0, time.Local)
	since := time.Date(2026, 11, 20, 14, 51, 40, 0, time.Local)
	answer := func(came time.Time, counts string) *topAnswer {
		return answerOf(t, came, now.Format(time.RFC3339), since.Format(time.RFC3339),
			`{"policy":"search","key":{"ip":"192.0.2.7"},"denials":961,"error":0},{"policy":"search","key":{"ip":"198.51.100.23"},"denials":48,"error":2}`,
			`"used":[{"policy":"search","key":{"ip":"192.0.2.7"},"uses":600,"error":0},{"policy":"search","key":{"ip":"203.0.113.9"},"uses":412,"error":0}],`, counts)
	}
	page := answer(now, `"allowed":4811,"denied":1033`).page(answer(now.Add(-2*time.Second), `"allowed":4786,"denied":1019`))
	manual, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "$ weir top\n"+page+"```") {
		t.Errorf("docs/metrics.md does not show\n%s", page)
	}
}

// Each answer is printed below the one before. Top goes on while weir does not answer, and
// ends when weir rejects the request.
func TestTopPrintsUntilRejected(t *testing.T) {
	requests := 0
	weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// net/http repeats a request only on a used connection.
		w.Header().Set("Connection", "close")
		switch requests++; requests {
		case 1, 3:
			w.Write(answerAt(t, time.Now(), "1", "1").body)
		case 4:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer weir.Close()
	code, text, messages := runWeir("top", "--url", weir.URL, "--interval", "100ms")
	if code != exitUsage || strings.Count(text, "\n\nweir at ") != 1 || strings.Count(text, "POLICY  ALLOWED") != 2 || strings.Contains(text, "\x1b") {
		t.Errorf("exit %d, got %q", code, text)
	}
	if !strings.Contains(messages, "does not answer") || strings.Count(messages, "trying again every 100ms") != 2 || !strings.Contains(messages, "answers 503 Service Unavailable") || !strings.Contains(messages, "authentication required") {
		t.Errorf("got messages %q", messages)
	}
}
