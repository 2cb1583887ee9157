package weirhttp

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weirlimit/weir"
)

// item is one member of a RateLimit or RateLimit-Policy field, read by a parser
// of structured fields. -1 = the parameter is missing.
type item struct {
	name       string
	q, w, r, t int64
}

func readField(t *testing.T, lines []string) []item {
	t.Helper()
	if len(lines) == 0 {
		return nil
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	var items []item
	for _, m := range list {
		one := m.(httpsfv.Item)
		parameter := func(name string) int64 {
			v, ok := one.Params.Get(name)
			if !ok {
				return -1
			}
			return v.(int64)
		}
		items = append(items, item{one.Value.(string), parameter("q"), parameter("w"), parameter("r"), parameter("t")})
	}
	return items
}

func wantItems(t *testing.T, what string, lines []string, want ...item) {
	t.Helper()
	got := readField(t, lines)
	if len(got) != len(want) {
		t.Errorf("%s: got %+v from %q\nwant %+v", what, got, lines, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s, item %d: got %+v from %q\nwant %+v", what, i+1, got[i], lines, want[i])
		}
	}
}

var slack = weir.Policy{Name: "slack-alerts", Limits: []weir.Limit{
	{Name: "channel", Max: 100, Window: 30 * time.Minute},
	{Name: "category", Max: 2, Window: 30 * time.Minute, MinInterval: 2500 * time.Millisecond, By: []string{"category"}},
}}

func TestPolicyField(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits []weir.Limit
		want   []item
	}{
		{"one limit", search.Limits, []item{{"p", 2, 60, -1, -1}}},
		{"two limits and a gap", slack.Limits, []item{
			{"p.channel", 100, 1800, -1, -1}, {"p.category", 2, 1800, -1, -1}, {"p.category.spacing", 1, 3, -1, -1}}},
		{"short window and gap", []weir.Limit{{Name: "burst", Max: 5, Window: 250 * time.Millisecond, MinInterval: time.Millisecond}},
			[]item{{"p.burst", 5, -1, -1, -1}, {"p.burst.spacing", 1, -1, -1, -1}}},
		{"part of a second", []weir.Limit{{Name: "limit", Max: 5, Window: time.Second + time.Microsecond}}, []item{{"p", 5, 2, -1, -1}}},
		{"more than 15 digits", []weir.Limit{{Name: "limit", Max: weir.MaxUnits, Window: weir.MaxWindow}},
			[]item{{"p", 999_999_999_999_999, 34_560_000, -1, -1}}},
	} {
		plan, err := weir.Policy{Name: "p", Limits: c.limits}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		wantItems(t, c.name, []string{PolicyField(plan)}, c.want...)
	}
}

func TestRateLimitField(t *testing.T) { synctest.Test(t, testRateLimitField) }

func testRateLimitField(t *testing.T) {
	h := Middleware(newLimiter(t, slack), By{"category": Header("Category")})(new(served))
	errs, info := with("Category", "errors"), with("Category", "info")

	r := get(h, errs)
	wantItems(t, "first grant: all limits, and the gap", r.Header["Ratelimit"],
		item{"slack-alerts.channel", -1, -1, 99, 1800}, item{"slack-alerts.category", -1, -1, 1, 1800},
		item{"slack-alerts.category.spacing", -1, -1, 0, 3})
	time.Sleep(time.Second)
	r = get(h, errs)
	wantItems(t, "too close: only the gap", r.Header["Ratelimit"], item{"slack-alerts.category.spacing", -1, -1, 0, 2})
	wantRetryAfter(t, r, "2")
	time.Sleep(2 * time.Second)
	get(h, errs)
	r = get(h, errs)
	wantItems(t, "full and too close: units and gap", r.Header["Ratelimit"],
		item{"slack-alerts.category", -1, -1, 0, 1797}, item{"slack-alerts.category.spacing", -1, -1, 0, 3})
	wantRetryAfter(t, r, "1797")
	time.Sleep(3 * time.Second)
	r = get(h, errs)
	wantItems(t, "full, the gap open: only units", r.Header["Ratelimit"], item{"slack-alerts.category", -1, -1, 0, 1794})
	r = get(h, info)
	wantItems(t, "another category", r.Header["Ratelimit"],
		item{"slack-alerts.channel", -1, -1, 97, 1794}, item{"slack-alerts.category", -1, -1, 1, 1800},
		item{"slack-alerts.category.spacing", -1, -1, 0, 3})
}

func wantRetryAfter(t *testing.T, r *http.Response, want string) {
	t.Helper()
	if got := r.Header.Get("Retry-After"); r.StatusCode != 429 || got != want {
		t.Errorf("status %d, Retry-After %q; want 429, %q", r.StatusCode, got, want)
	}
}

// A limit that Record took above its Max has room only after several units expire, so t
// must not be the instant of the first.
func TestOverdrawn(t *testing.T) { synctest.Test(t, testOverdrawn) }

func testOverdrawn(t *testing.T) {
	l := newLimiter(t, search)
	k := weir.K("192.0.2.1")
	for range 2 {
		if _, err := l.Record(t.Context(), k, 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
	}
	r := get(Middleware(l, By{"ip": ClientIP()})(new(served)))
	wantItems(t, "4 of 2 used, the first 2 leave in 40s", r.Header["Ratelimit"], item{"search", -1, -1, 0, 50})
	wantRetryAfter(t, r, "50")
}

func TestStackedLimits(t *testing.T) { synctest.Test(t, testStackedLimits) }

func testStackedLimits(t *testing.T) {
	outer := newLimiter(t, search)
	inner := newLimiter(t, weir.Policy{Name: "all", Limits: []weir.Limit{{Name: "limit", Max: 1, Window: time.Second}}})
	h := Middleware(outer, By{"ip": ClientIP()})(Middleware(inner, nil)(new(served)))

	r := get(h)
	wantItems(t, "both grant", r.Header["Ratelimit"], item{"search", -1, -1, 1, 60}, item{"all", -1, -1, 0, 1})
	r = get(h)
	wantItems(t, "the inner one denies", r.Header["Ratelimit"], item{"all", -1, -1, 0, 1})
	wantItems(t, "policies of both", r.Header["Ratelimit-Policy"], item{"search", 2, 60, -1, -1}, item{"all", 1, 1, -1, -1})
	wantRetryAfter(t, r, "1")
}

func TestForms(t *testing.T) { synctest.Test(t, testForms) }

func testForms(t *testing.T) {
	for _, f := range []struct {
		form          HeaderForm
		draft, legacy bool
	}{{HeadersDraft, true, false}, {HeadersLegacy, false, true}, {HeadersBoth, true, true}, {HeadersNone, false, false}} {
		began := time.Now()
		h := Middleware(newLimiter(t, search), By{"ip": ClientIP()}, Headers(f.form))(new(served))
		ok := get(h)
		get(h)
		time.Sleep(time.Millisecond)
		denied := get(h)
		wantRetryAfter(t, denied, "60")
		for what, r := range map[string]*http.Response{"granted": ok, "denied": denied} {
			if got := r.Header.Get("RateLimit") != "" && r.Header.Get("RateLimit-Policy") != ""; got != f.draft {
				t.Errorf("form %d, %s: draft fields %v, want %v: %v", f.form, what, got, f.draft, r.Header)
			}
			if got := r.Header.Get("X-RateLimit-Limit") != ""; got != f.legacy {
				t.Errorf("form %d, %s: legacy fields %v, want %v: %v", f.form, what, got, f.legacy, r.Header)
			}
		}
		if !f.legacy {
			continue
		}
		// Unix seconds, rounded up: began is 0, 1, 2 … ms past a whole second.
		reset := strconv.FormatInt(began.Add(time.Minute+time.Second-1).Unix(), 10)
		if h := denied.Header; h.Get("X-RateLimit-Limit") != "2" || h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Reset") != reset {
			t.Errorf("form %d, denied: got %v, want limit 2, remaining 0, reset %s", f.form, h, reset)
		}
		if h := ok.Header; h.Get("X-RateLimit-Remaining") != "1" {
			t.Errorf("form %d, granted: got %v, want remaining 1", f.form, h)
		}
	}
}

// A fallback that decides without states publishes none.
func TestDegradedWithoutStates(t *testing.T) {
	plan, err := search.Plan()
	if err != nil {
		t.Fatal(err)
	}
	o := Outcome{Plan: plan, Key: weir.K("192.0.2.1"), N: 1, Decision: weir.Decision{Degraded: true}, States: make([]weir.LimitState, 1)}
	h := http.Header{}
	o.WriteHeaders(h, HeadersBoth)
	if h.Get("Retry-After") != "1" || h.Get("RateLimit") != "" || h.Get("X-RateLimit-Limit") != "" || len(o.Violated()) != 0 {
		t.Errorf("got %v, violated %v; want Retry-After 1 and no state", h, o.Violated())
	}
}
