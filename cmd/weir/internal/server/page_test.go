package server

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/page"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestPageIsServedToEverybody: the files of the page need no token and no right Host, since they
// hold no data; the headers forbid everything that the page does not need.
func TestPageIsServedToEverybody(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
	size := 0
	for path, file := range page.Files {
		r := ask(s, "GET", path, "", called("evil.example"))
		if r.status != 200 || r.body != string(file.Text) || r.header.Get("Content-Type") != file.Type {
			t.Errorf("%s: status %d, %s, %d bytes", path, r.status, r.header.Get("Content-Type"), len(r.body))
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": page.SecurityPolicy,
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
			"X-Frame-Options":         "DENY",
			"Cache-Control":           "no-store",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		size += len(file.Text)
	}
	if size > 120_000 {
		t.Errorf("the page has %d bytes, want 120,000 at most", size)
	}
	if html := string(page.Files["/"].Text); strings.Contains(html, "style=") || strings.Contains(html, "onclick") || strings.Contains(html, `="/`) {
		t.Error("the page has inline code, or an absolute path that a prefix would break")
	}
}

// TestPageIsOnTheListenerOfOperators: with a listener of its own the page is there alone, with the
// calls that it needs.
func TestPageIsOnTheListenerOfOperators(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.AdminListen = "127.0.0.1:0" })
	admin := &Server{main: s.admin}
	for _, path := range []string{"/", "/page.css", "/page.js", "/icon.svg", "/v1/stats"} {
		wantProblem(t, path, ask(s, "GET", path, ""), 404, "--admin-listen")
		if r := ask(admin, "GET", path, ""); r.status != 200 {
			t.Errorf("%s on the admin listener: status %d", path, r.status)
		}
	}
	play(t, admin, `
		POST /v1/peek {"policy":"search","key":{"ip":"1"}} => 200 …"remaining":2,…
		POST /v1/check {"policy":"search","key":{"ip":"1"}} => 200 …"remaining":1,…
		GET /v1/policies => 200 …"worst_case":"at most 10 in any minute"…
		POST /v1/record {"policy":"search","key":{"ip":"1"}} => 404 …
		`)
}

// TestOperatorsMayTry: on a shared listener the token of operators opens the calls of the page, and
// no other decision; the token of programs opens no call of operators.
func TestOperatorsMayTry(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Auth.Token = secret(t, tokenWord)
		c.Auth.Admin = secret(t, adminWord)
	})
	for _, c := range []struct {
		method, path, body, token string
		status                    int
	}{
		{"POST", "/v1/check", searchBody, adminWord, 200},
		{"POST", "/v1/peek", searchBody, adminWord, 200},
		{"GET", "/v1/policies", "", adminWord, 200},
		{"GET", "/v1/stats", "", adminWord, 200},
		{"POST", "/v1/record", searchBody, adminWord, 401},
		{"GET", "/v1/stats", "", tokenWord, 401},
		{"GET", "/v1/policies", "", tokenWord, 200},
		{"POST", "/v1/check", searchBody, "another-token-0123", 401},
	} {
		r := ask(s, c.method, c.path, c.body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+c.token) })
		if r.status != c.status {
			t.Errorf("%s %s with %q: status %d, want %d", c.method, c.path, c.token, r.status, c.status)
		}
	}
	// With a listener of their own, operators' token opens nothing on the main one.
	s, _ = newServer(t, nil, func(c *Config) {
		c.Auth.Token = secret(t, tokenWord)
		c.Auth.Admin = secret(t, adminWord)
		c.AdminListen = "127.0.0.1:0"
	})
	if r := ask(s, "POST", "/v1/check", searchBody, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+adminWord) }); r.status != 401 {
		t.Errorf("a decision by the token of operators: status %d, want 401", r.status)
	}
	if r := ask(&Server{main: s.admin}, "POST", "/v1/check", searchBody, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenWord) }); r.status != 401 {
		t.Errorf("a decision by the token of programs on the admin listener: status %d, want 401", r.status)
	}
}

// stream opens server-sent events and returns their answer.
func stream(t *testing.T, address string) *http.Response {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+address+"/v1/stats", nil)
	must.Do(t, err)
	r.Header.Set("Accept", "text/event-stream")
	answer, err := http.DefaultClient.Do(r)
	must.Do(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// TestEventsEndWithTheServer: streams are bounded, last longer than other answers, have the object
// of GET /v1/stats, and end when the server drains.
func TestEventsEndWithTheServer(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Limits.Read, c.Limits.Write = time.Second, time.Second })
	stop := start(t, s)
	var all []*http.Response
	for range 32 {
		answer := stream(t, s.Addr())
		if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("status %d, %v", answer.StatusCode, answer.Header)
		}
		all = append(all, answer)
	}
	if answer := stream(t, s.Addr()); answer.StatusCode != 503 {
		t.Errorf("stream 33: status %d, want 503", answer.StatusCode)
	}
	text := make([]byte, 0, 4096)
	for strings.Count(string(text), "\n\n") < 3 { // 4 s, more than Write and Read
		part := make([]byte, 4096)
		n, err := all[0].Body.Read(part)
		must.Do(t, err)
		text = append(text, part[:n]...)
	}
	if !strings.HasPrefix(string(text), `data: {"at":"`) {
		t.Errorf("an event is %s", text)
	}
	began := time.Now()
	must.Do(t, stop())
	for _, answer := range all {
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Errorf("a stream broke off: %v", err)
		}
	}
	if took := time.Since(began); took > s.config.Limits.Drain/2 { // streams that do not end take all of it
		t.Errorf("the end took %v", took)
	}
}

var pages = flag.Bool("pages", false, "measure decisions with five pages open, and without")

// TestPagesDoNotSlowDecisions compares the 99th percentile of decisions over HTTP with five pages
// open and without, in turns. With -pages (make operators) a ratio above 1.1 is an error.
func TestPagesDoNotSlowDecisions(t *testing.T) {
	rounds, length := 2, 100*time.Millisecond
	if *pages {
		rounds, length = 20, time.Second
	}
	s, _ := newServer(t, nil)
	start(t, s)
	var with, without []time.Duration
	for i := range 2 * rounds {
		close := func() {}
		if i%2 == 0 {
			close = openPages(t, s.Addr(), 5)
		}
		took := decide(t, s.Addr(), length)
		close()
		if i%2 == 0 {
			with = append(with, took...)
		} else {
			without = append(without, took...)
		}
	}
	a, b := percentile(with, 0.99), percentile(without, 0.99)
	t.Logf("p99 of %d decisions with five pages %v, of %d without %v: %.2f times; median %.2f times", len(with), a, len(without), b,
		float64(a)/float64(b), float64(percentile(with, 0.5))/float64(percentile(without, 0.5)))
	if *pages && float64(a) > 1.1*float64(b) {
		t.Error("the ratio is above 1.1")
	}
}

func percentile(all []time.Duration, share float64) time.Duration {
	slices.Sort(all)
	return all[int(share*float64(len(all)-1))]
}

// openPages makes the requests of open pages, on the view of keys, until the result is called.
func openPages(t *testing.T, address string, n int) (close func()) {
	var readers sync.WaitGroup
	var all []*http.Response
	for range n {
		answer := stream(t, address)
		all = append(all, answer)
		readers.Go(func() {
			part := make([]byte, 64<<10)
			for {
				if _, err := answer.Body.Read(part); err != nil {
					return
				}
				if top, err := http.Get("http://" + address + "/v1/top?n=50"); err == nil {
					io.Copy(io.Discard, top.Body)
					top.Body.Close()
				}
			}
		})
	}
	return func() {
		for _, answer := range all {
			answer.Body.Close()
		}
		readers.Wait()
	}
}

// decide makes decisions for a time, from two clients, and returns the time of each.
func decide(t *testing.T, address string, length time.Duration) (took []time.Duration) {
	var mu sync.Mutex
	var clients sync.WaitGroup
	for c := range 2 {
		clients.Go(func() {
			var own []time.Duration
			client := http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for end, i := time.Now().Add(length), 0; time.Now().Before(end); i++ {
				body := fmt.Sprintf(`{"policy":"search","key":{"ip":"192.0.2.%d"}}`, (c*1000+i)%200)
				began := time.Now()
				answer, err := client.Post("http://"+address+"/v1/check", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	clients.Wait()
	return took
}
