package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"golang.org/x/time/rate"

	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// TestAuditFindsTheWorstWindow of limiters that Go programs use: nearly twice the limit, or twice.
func TestAuditFindsTheWorstWindow(t *testing.T) {
	needs.Time(t)
	const limit, window = 10, 300 * time.Millisecond // a bucket refills every 30 ms
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	bucket := rate.NewLimiter(rate.Every(window/limit), limit)
	counter, err := peers.Named("sethvargo/go-limiter")
	must.Do(t, err)
	fixed := counter.New(limit, window)
	weir := program.Path(t)
	for name, handler := range map[string]http.Handler{
		"x/time/rate": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer(w, bucket.Allow())
		}),
		"sethvargo/go-limiter": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer(w, fixed.Allow("key"))
		}),
		"httprate": httprate.LimitBy(limit, window, httprate.Key("*"))(hello),
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			defer server.Close()
			for range 10 { // a stall of this machine hides grants
				f, code := auditURL(t, weir, server.URL, limit, window)
				t.Logf("%d of %d allowed in %v, found by %s", f.Allowed, limit, window, f.Worst.Move)
				isBroken := f.Allowed > limit
				if (code == 1) != isBroken || (f.Verdict == "broken") != isBroken || f.Allowed > 2*limit {
					t.Fatalf("%d of %d allowed: %s, exit code %d", f.Allowed, limit, f.Verdict, code)
				}
				if f.Allowed >= 2*limit-1 {
					return
				}
			}
			t.Errorf("no audit found %d or %d of %d", 2*limit-1, 2*limit, limit)
		})
	}
}

// auditURL runs weir audit.
func auditURL(
	t *testing.T, weir, url string, limit int, window time.Duration,
) (f finding, code int) {
	t.Helper()
	cmd := exec.Command(weir, "audit", "--json", "--url", url,
		"--limit", fmt.Sprint(limit), "--window", window.String())
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	must.Do(t, json.Unmarshal(out, &f))
	return f, cmd.ProcessState.ExitCode()
}

func answer(w http.ResponseWriter, allowed bool) {
	if !allowed {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}
