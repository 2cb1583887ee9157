package weirhttp

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestBlockedRequests: while a key is blocked, every field of a denial has the end of the block, to
// the second in which it ends.
func TestBlockedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, weir.Policy{Name: "login", Limits: []weir.Limit{
			weir.PerMinute(2).Named("minute").Blocking(10 * time.Minute),
			weir.PerHour(100).Named("hour"),
		}})
		h := Middleware(l, nil, XRateLimit())(new(served))
		start := time.Now()
		want := func(label, retryAfter, rateLimit, limit string, reset int64) {
			t.Helper()
			r := get(h)
			assert.Equal(t, r.StatusCode, http.StatusTooManyRequests, "%s: status", label)
			assert.Equal(t, r.Header.Get("Retry-After"), retryAfter, "%s: Retry-After", label)
			wantField(t, label, r.Header["Ratelimit"], rateLimit)
			wantX(t, label, r.Header, start, limit, "0", reset)
		}
		get(h)
		get(h)
		want("the third", "600", `"login.minute";r=0;t=600`, "2", 600)
		time.Sleep(10*time.Minute - 1500*time.Millisecond)
		want("the fourth", "2", `"login.minute";r=0;t=2`, "2", 600)
		time.Sleep(1500*time.Millisecond - time.Microsecond)
		want("a microsecond early", "1", `"login.minute";r=0;t=1`, "2", 600)
		time.Sleep(time.Microsecond)
		assert.Equal(t, get(h).StatusCode, http.StatusOK, "status after the block")

		if _, err := l.Block(t.Context(), weir.K(), time.Hour, "hour"); err != nil {
			t.Fatal(err)
		}
		want("blocked by hand", "3600", `"login.hour";r=0;t=3600`, "100", 600+3600)
	})
}

// TestTransportWaitsForABlock: a request that is denied by a block waits for its end.
func TestTransportWaitsForABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerMinute(5)}})
		if _, err := l.Block(t.Context(), weir.K(), 90*time.Second); err != nil {
			t.Fatal(err)
		}
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		began := time.Now()
		status, err := call(t.Context(), NewTransport(base, l, nil), "/", nil)
		if status != 200 || err != nil || time.Since(began) != 90*time.Second {
			t.Errorf("status %d, %v after %v; want 200 after 90s", status, err, time.Since(began))
		}
	})
}
