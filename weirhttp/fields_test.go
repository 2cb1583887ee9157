package weirhttp

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

// item is one member of a RateLimit or RateLimit-Policy field. -1 = the parameter is missing.
type item struct {
	name       string
	q, w, r, t int64
}

// structured matches a list of strings with parameters, as RFC 9651 writes it. Another
// reader of structured fields reads the same fields in the tests of the HTTP interface.
var (
	structured = regexp.MustCompile(`^` + member + `(, ` + member + `)*$`)
	memberOf   = regexp.MustCompile(`"([^"]*)"((?:` + parameter + `)*)`)
)

const (
	member    = `"[ !#-\[\]-~]*"(` + parameter + `)*`
	parameter = `;[a-z][a-z0-9_.*-]*=(?:-?[0-9]{1,15}|"[ !#-\[\]-~]*")`
)

func readField(t *testing.T, lines []string) []item {
	t.Helper()
	if len(lines) == 0 {
		return nil
	}
	list := strings.Join(lines, ", ")
	if !structured.MatchString(list) {
		t.Fatalf("%q: not a list of strings with parameters", lines)
	}
	var items []item
	for _, m := range memberOf.FindAllStringSubmatch(list, -1) {
		one := item{m[1], -1, -1, -1, -1}
		for _, p := range strings.Split(m[2], ";")[1:] {
			name, value, _ := strings.Cut(p, "=")
			if to := map[string]*int64{"q": &one.q, "w": &one.w, "r": &one.r, "t": &one.t}[name]; to != nil {
				*to, _ = strconv.ParseInt(value, 10, 64) // 0, which no test wants, for a text
			}
		}
		items = append(items, one)
	}
	return items
}

func wantItems(t *testing.T, label string, lines []string, want ...item) {
	t.Helper()
	got := readField(t, lines)
	if len(got) != len(want) {
		t.Errorf("%s: got %+v from %q\nwant %+v", label, got, lines, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s, item %d: got %+v from %q\nwant %+v", label, i+1, got[i], lines, want[i])
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
			{"p.channel", 100, 1800, -1, -1}, {"p.category", 2, 1800, -1, -1}, {"p.category.interval", 1, 3, -1, -1}}},
		{"short window and gap", []weir.Limit{{Name: "burst", Max: 5, Window: 250 * time.Millisecond, MinInterval: time.Millisecond}},
			[]item{{"p.burst", 5, -1, -1, -1}, {"p.burst.interval", 1, -1, -1, -1}}},
		{"part of a second", []weir.Limit{{Name: "limit", Max: 5, Window: time.Second + time.Microsecond}}, []item{{"p", 5, 2, -1, -1}}},
		{"more than 15 digits", []weir.Limit{{Name: "limit", Max: weir.MaxUnits, Window: weir.MaxWindow}},
			[]item{{"p", 999_999_999_999_999, 34_560_000, -1, -1}}},
	} {
		plan, err := weir.Policy{Name: "p", Limits: c.limits}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		wantItems(t, c.name, []string{PolicyField(plan)}, c.want...)
	}
}

// The policy of a bucket has the rate as q/w, of Concurrency another quota unit, and of a
// month no window, because no length is that of each month.
func TestPolicyFieldOfEachKind(t *testing.T) {
	for _, c := range []struct {
		limit weir.Limit
		want  string
	}{
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 20}, `"p";q=20;w=2`},
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second}, `"p";q=10;w=1`},
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 9}, `"p";q=9`},
		{weir.Limit{Kind: weir.Bucket, Max: 3, Window: time.Second, Burst: 4}, `"p";q=4;w=2`},
		{weir.Limit{Kind: weir.Bucket, Max: 7, Window: 7*time.Second - time.Microsecond, Burst: 7}, `"p";q=7;w=7`},
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 20, MinInterval: time.Second}, `"p";q=20;w=2, "p.interval";q=1;w=1`},
		{weir.Limit{Kind: weir.Concurrency, Max: 20, MaxHold: 30 * time.Second}, `"p";q=20;qu="concurrent-requests"`},
		{weir.Limit{Kind: weir.Concurrency, Max: 20, MaxHold: 30 * time.Second, MinInterval: time.Second}, `"p";q=20;qu="concurrent-requests", "p.interval";q=1;w=1`},
		{weir.Limit{Kind: weir.FixedFromFirst, Max: 5, Window: time.Minute}, `"p";q=5;w=60`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Window: time.Minute}, `"p";q=5;w=60`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Period: weir.Hour}, `"p";q=5;w=3600`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Period: weir.Day, Zone: "Europe/Berlin"}, `"p";q=5;w=86400`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Period: weir.Week, Anchor: 7}, `"p";q=5;w=604800`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Period: weir.Month, Anchor: 14}, `"p";q=5`},
	} {
		c.limit.Name = "limit"
		plan, err := weir.Policy{Name: "p", Limits: []weir.Limit{c.limit}}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		got := PolicyField(plan)
		if !structured.MatchString(got) || got != c.want {
			t.Errorf("%v: got %s, want %s", c.limit.Kind, got, c.want)
		}
	}
}

// Each kind has the fields of a grant and of a denial. t is never later than Retry-After.
func TestFieldsOfEachKind(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC) // clocks in Berlin go from 2:00 to 3:00
	for _, c := range []struct {
		name           string
		limit          weir.Limit
		before, n      int64
		field          string
		retry, allowed bool
	}{
		{"bucket, a grant", weir.Limit{Kind: weir.Bucket, Max: 10, Window: 30 * time.Second, Burst: 20}, 0, 1, `"p";r=19;t=3`, false, true},
		{"bucket, full", weir.Limit{Kind: weir.Bucket, Max: 10, Window: 30 * time.Second, Burst: 20}, 0, 0, `"p";r=20`, false, true},
		{"bucket, the next unit sooner than a second", weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 20}, 0, 5, `"p";r=15;t=1`, false, true},
		{"bucket, empty", weir.Limit{Kind: weir.Bucket, Max: 10, Window: 30 * time.Second, Burst: 20}, 20, 1, `"p";r=0;t=3`, true, false},
		{"bucket, too little", weir.Limit{Kind: weir.Bucket, Max: 10, Window: 30 * time.Second, Burst: 20}, 15, 8, `"p";r=5;t=3`, true, false},
		{"bucket, more than it holds", weir.Limit{Kind: weir.Bucket, Max: 10, Window: 30 * time.Second, Burst: 20}, 15, 21, `"p";r=5;t=3`, false, false},
		{"at once, a grant", weir.Limit{Kind: weir.Concurrency, Max: 2, MaxHold: 30 * time.Second}, 0, 1, `"p";r=1`, false, true},
		{"at once, the last one", weir.Limit{Kind: weir.Concurrency, Max: 2, MaxHold: 30 * time.Second}, 1, 1, `"p";r=0`, false, true},
		{"at once, a denial", weir.Limit{Kind: weir.Concurrency, Max: 2, MaxHold: 30 * time.Second}, 2, 1, `"p";r=0;t=30`, true, false},
		{"a day of 23 hours", weir.Limit{Kind: weir.Fixed, Max: 2, Period: weir.Day, Zone: "Europe/Berlin"}, 0, 1, `"p";r=1;t=75600`, false, true},
		{"a day of 23 hours, a denial", weir.Limit{Kind: weir.Fixed, Max: 2, Period: weir.Day, Zone: "Europe/Berlin"}, 2, 1, `"p";r=0;t=75600`, true, false},
		{"a month of 31 days", weir.Limit{Kind: weir.Fixed, Max: 2, Period: weir.Month}, 0, 1, `"p";r=1;t=255600`, false, true},
		{"from the first hit", weir.Limit{Kind: weir.FixedFromFirst, Max: 2, Window: time.Minute}, 2, 1, `"p";r=0;t=60`, true, false},
	} {
		c.limit.Name = "limit"
		l := newLimiter(t, weir.Policy{Name: "p", Limits: []weir.Limit{c.limit}})
		if d, err := l.At(at).AllowN(t.Context(), weir.K(), c.before); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		o := Outcome{Compiled: l.Compiled(), N: c.n, States: make([]weir.LimitState, 1)}
		var err error
		if o.Decision, err = l.Decide(t.Context(), o.Key, weir.Request{N: c.n, At: at, States: o.States}); err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		o.WriteHeaders(h)
		if o.Decision.Allowed != c.allowed || h.Get("RateLimit") != c.field || h.Get("Retry-After") != "" != c.retry {
			t.Errorf("%s: got %v; want %s", c.name, h, c.field)
		}
		if item := readField(t, h["Ratelimit"])[0]; c.retry && item.t > 0 {
			if retry, _ := strconv.ParseInt(h.Get("Retry-After"), 10, 64); item.t > retry {
				t.Errorf("%s: t=%d is later than Retry-After: %d", c.name, item.t, retry)
			}
		}
	}
}

// A limit of units in use at once denies, and does not hide the room of a rate.
func TestFieldsOfRateAndConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, weir.Policy{Name: "farm", Limits: []weir.Limit{
			{Name: "jobs", Kind: weir.Concurrency, Max: 1, MaxHold: time.Minute}, {Name: "day", Max: 1000, Window: 24 * time.Hour}}})
		var h http.Handler
		var second *http.Response
		h = Middleware(l, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { second = get(h) }))
		r := get(h)
		if got := r.Header.Get("RateLimit"); got != `"farm.jobs";r=0, "farm.day";r=999;t=86400` {
			t.Errorf("a grant: got %v", r.Header)
		}
		if wait := serverWait(r, time.Now()); wait != 0 {
			t.Errorf("a grant: Transport waits %v, want 0", wait)
		}
		wantRetryAfter(t, second, "60")
		if got := second.Header.Get("RateLimit"); got != `"farm.jobs";r=0;t=60` {
			t.Errorf("a denial: got %v", second.Header)
		}
	})
}

func TestRateLimitField(t *testing.T) { synctest.Test(t, testRateLimitField) }

func testRateLimitField(t *testing.T) {
	h := Middleware(newLimiter(t, slack), By{"category": Header("Category")})(new(served))
	errs, info := with("Category", "errors"), with("Category", "info")

	r := get(h, errs)
	wantItems(t, "first grant: all limits, and the gap", r.Header["Ratelimit"],
		item{"slack-alerts.channel", -1, -1, 99, 1800}, item{"slack-alerts.category", -1, -1, 1, 1800},
		item{"slack-alerts.category.interval", -1, -1, 0, 3})
	time.Sleep(time.Second)
	r = get(h, errs)
	wantItems(t, "too close: only the gap", r.Header["Ratelimit"], item{"slack-alerts.category.interval", -1, -1, 0, 2})
	wantRetryAfter(t, r, "2")
	time.Sleep(2 * time.Second)
	get(h, errs)
	r = get(h, errs)
	wantItems(t, "full and too close: units and gap", r.Header["Ratelimit"],
		item{"slack-alerts.category", -1, -1, 0, 1797}, item{"slack-alerts.category.interval", -1, -1, 0, 3})
	wantRetryAfter(t, r, "1797")
	time.Sleep(3 * time.Second)
	r = get(h, errs)
	wantItems(t, "full, the gap open: only units", r.Header["Ratelimit"], item{"slack-alerts.category", -1, -1, 0, 1794})
	r = get(h, info)
	wantItems(t, "another category", r.Header["Ratelimit"],
		item{"slack-alerts.channel", -1, -1, 97, 1794}, item{"slack-alerts.category", -1, -1, 1, 1800},
		item{"slack-alerts.category.interval", -1, -1, 0, 3})
}

func wantRetryAfter(t *testing.T, r *http.Response, want string) {
	t.Helper()
	if got := r.Header.Get("Retry-After"); r.StatusCode != 429 || got != want {
		t.Errorf("status %d, Retry-After %q; want 429, %q", r.StatusCode, got, want)
	}
}

// A limit that Record took above its Max has room only after several units expire, so t
// must not be the instant of the first.
func TestRetryAfterOfAnOverdrawnLimit(t *testing.T) {
	synctest.Test(t, testRetryAfterOfAnOverdrawnLimit)
}

func testRetryAfterOfAnOverdrawnLimit(t *testing.T) {
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

func TestNestedMiddlewareDescribesBothPolicies(t *testing.T) {
	synctest.Test(t, testNestedMiddlewareDescribesBothPolicies)
}

func testNestedMiddlewareDescribesBothPolicies(t *testing.T) {
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

// A fallback that decides without states publishes none.
func TestDegradedDecisionsHaveNoFields(t *testing.T) {
	plan, err := search.Compile()
	if err != nil {
		t.Fatal(err)
	}
	o := Outcome{Compiled: plan, Key: weir.K("192.0.2.1"), N: 1, Decision: weir.Decision{Degraded: true}, States: make([]weir.LimitState, 1)}
	h := http.Header{}
	o.WriteHeaders(h)
	if h.Get("Retry-After") != "1" || h.Get("RateLimit") != "" || len(o.Violated()) != 0 {
		t.Errorf("got %v, violated %v; want Retry-After 1 and no state", h, o.Violated())
	}
}
