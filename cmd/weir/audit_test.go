package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

const auditedLimit, auditedWindow = 20, 100 * time.Millisecond

// runAudit audits a handler, with a limit of 20 requests in 100 ms.
func runAudit(t *testing.T, h http.HandlerFunc, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runAuditOf(t, h, auditedWindow, args...)
}

// runAuditOf audits a handler, with a limit of 20 requests in a window.
func runAuditOf(
	t *testing.T, h http.HandlerFunc, window time.Duration, args ...string,
) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	line := []string{"audit", "--url", server.URL + "/", "--limit", fmt.Sprint(auditedLimit),
		"--window", window.String()}
	return runWeir(append(line, args...)...)
}

// fixedWindow is a counter whose windows begin with the first request.
type fixedWindow struct {
	window time.Duration
	mu     sync.Mutex
	begun  time.Time
	count  int
}

func (f *fixedWindow) allow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.begun) >= f.window {
		f.begun, f.count = now, 0
	}
	f.count++
	return f.count <= auditedLimit
}

// TestAuditFindsAFixedWindow: nearly twice the limit is allowed around the edge of a window. A
// status in --denied counts as a denial.
func TestAuditFindsAFixedWindow(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	nearlyTwice := regexp.MustCompile(`^worst window: (39|40) of 20 allowed in \d+(ms|s)\n`)
	// A busy machine delays requests beyond the edge of the window and hides grants. The edge of a
	// longer window lasts longer.
	for try := 1; ; try++ {
		fixed := fixedWindow{window: time.Duration(try) * auditedWindow}
		handler := func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.Header.Get("X-Api-Key") != "test" || r.Host != "app.example" {
				w.WriteHeader(http.StatusBadRequest)
			} else if !fixed.allow() {
				w.WriteHeader(http.StatusForbidden)
			}
		}
		code, stdout, stderr := runAuditOf(t, handler, fixed.window, "--denied", "403", "--method", "POST",
			"--header", "X-Api-Key: test", "--header", "Host: app.example")
		if !nearlyTwice.MatchString(stdout) && try < 10 {
			t.Logf("try %d: exit code %d, %s%s", try, code, stdout, stderr)
			continue
		}
		if code != exitDenied {
			t.Errorf("exit code %d, want 1: %s%s", code, stdout, stderr)
		}
		wantMatch(t, stdout, nearlyTwice.String())
		wantMatch(t, stdout, `\nbroken: (39|40) requests were allowed in less than \d+(ms|s), (19|20) above the limit\n$`)
		wantMatch(t, stdout, `\d+ denied \(403\)`)
		return
	}
}

// TestAuditOfNoLimit: a service that allows everything is broken. More than 20 requests fit into its
// window also on a busy machine.
func TestAuditOfNoLimit(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	code, stdout, stderr := runAuditOf(t, func(http.ResponseWriter, *http.Request) {}, time.Second)
	if code != exitDenied {
		t.Errorf("exit code %d, want 1", code)
	}
	wantMatch(t, stdout, `^worst window: \d+ of 20 allowed in 1s\n(.*\n)*broken: no limit was seen: all \d+ requests were allowed`)
	wantMatch(t, stderr, `^weir audit: 5 moves.*\n$`)
}

// TestAuditOfOtherAnswers: if a service gives no verdict, the message has the reason and the
// next step.
func TestAuditOfOtherAnswers(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	var slow, dying sync.Mutex
	answered := 0
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		code    int
		stdout  string // a pattern
		stderr  string
	}{
		{"denies all", status(429), exitUsage,
			`^worst window: 0 of 20 allowed in 100ms\nmoves: after idle 0, .*\nrequests: \d+ in \d\.\ds: \d+ denied \(429\), no errors\n$`,
			`\nweir audit: no verdict: every request was denied\n  wait until the limit is free, `},
		{"too slow", func(http.ResponseWriter, *http.Request) {
			slow.Lock()
			defer slow.Unlock()
			time.Sleep(auditedWindow / 10)
		}, exitUsage, `^worst window: \d+ of 20 allowed in 100ms\n`,
			`\nweir audit: no verdict: no request was denied, and no window had more than \d+ of 20: requests are delayed, or are too slow to fill a window\n  audit it with a smaller limit`},
		{"goes away", func(w http.ResponseWriter, r *http.Request) {
			dying.Lock()
			defer dying.Unlock()
			if answered++; answered > 21 {
				panic(http.ErrAbortHandler)
			} else if answered == 21 {
				w.WriteHeader(429)
			}
		}, exitStore, `^worst window: 1\d of 20 allowed in 100ms\n(.*\n)*requests: 31 in .*, 10 without a decision: it does not answer: it closes the connection\n$`,
			`\nweir audit: no verdict: after 21 answers it does not answer: it closes the connection\n  is the service up`},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login?token=secret", http.StatusFound)
		}, exitUsage, `^$`, `\nweir audit: http://\S+/ answers 302 Found: it refers to http://127\.0\.0\.1:\d+/login\?…\n  write the address of the limited page itself by --url\n$`},
		{"a token", status(401), exitUsage, `^$`, ` answers 401 Unauthorized\n  add what it requires, such as --header 'Authorization: Bearer …'\n$`},
		{"another path", status(404), exitUsage, `^$`, ` answers 404 Not Found\n  is the path of --url right\?\n$`},
		{"another method", status(405), exitUsage, `^$`, ` answers 405 Method Not Allowed\n  write the method that it takes, such as --method POST\n$`},
		{"another denial", status(403), exitUsage, `^$`, ` answers 403 Forbidden\n  does it need another --header or --method\? if that is its denial, write --denied 403\n$`},
		{"a fault", status(500), exitStore, `^$`, ` answers 500 Internal Server Error\n  see the log of the service\n$`},
		{"silence", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, exitStore, `^$`,
			` does not answer within 2s\n  is the service up`},
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, exitUsage, `^$`, ` answers with a body that does not end within 2s and 1MiB\n  name a short page of the same limit, or write --method HEAD\n$`},
		{"a long body", func(w http.ResponseWriter, r *http.Request) {
			for range 100 {
				w.Write(make([]byte, 1<<16))
			}
		}, exitUsage, `^$`, ` answers with a body that does not end `},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runAudit(t, c.handler)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			wantMatch(t, stdout, c.stdout)
			wantMatch(t, stderr, c.stderr)
		})
	}
}

// TestAuditEndsInTime: at --max-time the audit ends and prints its result so far.
func TestAuditEndsInTime(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	var mu sync.Mutex
	code, stdout, stderr := runAudit(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		time.Sleep(auditedWindow)
		w.WriteHeader(429)
	}, "--max-time", "2200ms")
	if code != exitUsage {
		t.Errorf("exit code %d, want 2", code)
	}
	wantMatch(t, stdout, `^worst window: 0 of 20 allowed in 100ms\n`)
	wantMatch(t, stderr, `weir audit: no verdict: the bound on time was reached in move \d of 5\n`+
		`  raise --max-time\n$`)
}

// TestAuditIsInterrupted: Ctrl-C prints the result so far, also if it ends the audited program.
func TestAuditIsInterrupted(t *testing.T) {
	t.Parallel()
	var out, messages bytes.Buffer
	cmd := exec.Command("weir", "audit", "--limit", "20", "--window", "1m", "--", "sh", "-c",
		`echo asked >&2; read n; echo allow; while read n; do echo deny; done`)
	cmd.Stdout = &out
	pipe, err := cmd.StderrPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	text := make([]byte, 4096)
	for !strings.Contains(messages.String(), "asked") {
		n, err := pipe.Read(text)
		must.Do(t, err)
		messages.Write(text[:n])
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_, err = messages.ReadFrom(pipe)
	must.Do(t, err)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitUsage {
		t.Errorf("exit code %d, want 2", code)
	}
	wantMatch(t, out.String(), `^worst window: [01] of 20 allowed in 1m\n`)
	wantMatch(t, messages.String(), `weir audit: no verdict: it was interrupted in move [01] of 4\n$`)
}

func wantMatch(t *testing.T, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("got %q, want a match of %s", text, pattern)
	}
}
