package weirhttp

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

// wantX compares the X-RateLimit fields. reset is in seconds after since, negative for none.
func wantX(t *testing.T, label string, h http.Header, since time.Time, limit, remaining string, reset int64) {
	t.Helper()
	want := ""
	if reset >= 0 {
		want = strconv.FormatInt(since.Unix()+reset, 10)
	}
	if h.Get(xLimit) != limit || h.Get(xRemaining) != remaining || h.Get(xReset) != want {
		t.Errorf("%s: %s of %s until %s; want %s of %s until %s", label, h.Get(xRemaining), h.Get(xLimit), h.Get(xReset), remaining, limit, want)
	}
}

// TestXRateLimit: of several limits the fields show the one with the least room, and of a denial
// the one with the longest wait. Reset is rounded up to seconds since 1970.
func TestXRateLimit(t *testing.T) { synctest.Test(t, testXRateLimit) }

func testXRateLimit(t *testing.T) {
	l := newLimiter(t, weir.Policy{Name: "api", Limits: []weir.Limit{
		{Name: "running", Kind: weir.KindConcurrency, Max: 1, MaxHold: time.Minute},
		{Name: "minute", Max: 3, Window: time.Minute},
		{Name: "hour", Max: 4, Window: time.Hour},
	}})
	var during http.Header
	h := Middleware(l, nil, XRateLimit())(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if during != nil {
			during = get(Middleware(l, nil, XRateLimit())(new(served))).Header
		}
	}))
	start := time.Now()
	wantX(t, "the first", get(h).Header, start, "3", "2", 60)
	time.Sleep(1500 * time.Millisecond)
	during = http.Header{}
	wantX(t, "the second", get(h).Header, start, "3", "1", 62)
	wantX(t, "denied for concurrency", during, start, "1", "0", 62)
	wantX(t, "the third", get(h).Header, start, "3", "0", 62)
	wantX(t, "denied", get(h).Header, start, "3", "0", 62)
	time.Sleep(time.Minute)
	wantX(t, "a minute later", get(h).Header, start, "4", "0", 3662)
	wantX(t, "denied by the hour", get(h).Header, start, "4", "0", 3662)
}

// TestXRateLimitOfSeveral Middlewares shows the least room, and a denial replaces it. Without the
// option there are no fields.
func TestXRateLimitOfSeveral(t *testing.T) { synctest.Test(t, testXRateLimitOfSeveral) }

func testXRateLimitOfSeveral(t *testing.T) {
	perMinute := func(name string, n int64, opts ...Option) func(http.Handler) http.Handler {
		return Middleware(newLimiter(t, weir.Policy{Name: name, Limits: []weir.Limit{weir.PerMinute(n)}}), nil, opts...)
	}
	start := time.Now()
	few, many := perMinute("few", 2, XRateLimit()), perMinute("many", 9, XRateLimit())
	wantX(t, "few outside", get(few(many(new(served)))).Header, start, "2", "1", 60)
	wantX(t, "many outside", get(many(few(new(served)))).Header, start, "2", "0", 60)
	wantX(t, "few denies inside", get(many(few(new(served)))).Header, start, "2", "0", 60)
	wantX(t, "no option", get(perMinute("plain", 2)(new(served))).Header, start, "", "", -1)
}
