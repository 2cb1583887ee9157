package weirhttp

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// structured matches a list of strings with parameters, as RFC 9651 writes it. Another
// reader of structured fields reads the same fields in the tests of the HTTP interface.
var structured = regexp.MustCompile(`^` + member + `(, ` + member + `)*$`)

const (
	member    = `"[ !#-\[\]-~]*"(` + parameter + `)*`
	parameter = `;[a-z][a-z0-9_.*-]*=(?:-?[0-9]{1,15}|"[ !#-\[\]-~]*")`
)

// wantField compares the lines of a header field, joined.
func wantField(t *testing.T, label string, lines []string, want string) {
	t.Helper()
	if got := strings.Join(lines, ", "); got != want || want != "" && !structured.MatchString(got) {
		t.Errorf("%s: got %s, want %s", label, got, want)
	}
}

var slack = weir.Policy{Name: "slack-alerts", Limits: []weir.Limit{
	{Name: "channel", Max: 100, Window: 30 * time.Minute},
	{Name: "category", Max: 2, Window: 30 * time.Minute, MinInterval: 2500 * time.Millisecond, By: []string{"category"}},
}}

// TestPolicyField: the policy of a bucket has the rate as q/w, of Concurrency another quota
// unit, and of a month no window, because no length is that of each month.
func TestPolicyField(t *testing.T) {
	field := func(limits ...weir.Limit) string {
		t.Helper()
		if len(limits) == 1 {
			limits[0].Name = "limit"
		}
		return PolicyField(must.Get(weir.Policy{Name: "p", Limits: limits}.Compile())(t))
	}
	wantField(t, "two limits and a gap", []string{field(slack.Limits...)}, `"p.channel";q=100;w=1800, "p.category";q=2;w=1800, "p.category.interval";q=1;w=3`)
	for _, c := range []struct {
		limit weir.Limit
		want  string
	}{
		{weir.PerMinute(2, "ip"), `"p";q=2;w=60`},
		{weir.Limit{Max: 5, Window: 250 * time.Millisecond, MinInterval: time.Millisecond}, `"p";q=5, "p.interval";q=1`},
		{weir.Limit{Max: 5, Window: time.Second + time.Microsecond}, `"p";q=5;w=2`},
		{weir.Limit{Max: weir.MaxUnits, Window: weir.MaxWindow}, `"p";q=999999999999999;w=34560000`}, // 15 digits
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
		wantField(t, c.limit.Kind.String(), []string{field(c.limit)}, c.want)
	}
}

// TestFieldsOfEachKind: each kind has the fields of a grant and of a denial. t is never later than Retry-After.
func TestFieldsOfEachKind(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC) // clocks in Berlin go from 2:00 to 3:00
	bucket := weir.Limit{Kind: weir.Bucket, Max: 10, Window: 30 * time.Second, Burst: 20}
	atOnce := weir.Limit{Kind: weir.Concurrency, Max: 2, MaxHold: 30 * time.Second}
	berlin := weir.Limit{Kind: weir.Fixed, Max: 2, Period: weir.Day, Zone: "Europe/Berlin"}
	for _, c := range []struct {
		name      string
		limit     weir.Limit
		before, n int64
		allowed   bool
		field     string
		retry     string
	}{
		{"bucket, a grant", bucket, 0, 1, true, `"p";r=19;t=3`, ""},
		{"bucket, full", bucket, 0, 0, true, `"p";r=20`, ""},
		{"bucket, the next unit sooner than a second", weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 20}, 0, 5, true, `"p";r=15;t=1`, ""},
		{"bucket, empty", bucket, 20, 1, false, `"p";r=0;t=3`, "3"},
		{"bucket, too little", bucket, 15, 8, false, `"p";r=5;t=3`, "9"},
		{"bucket, more than it holds", bucket, 15, 21, false, `"p";r=5;t=3`, ""},
		{"at once, a grant", atOnce, 0, 1, true, `"p";r=1`, ""},
		{"at once, the last one", atOnce, 1, 1, true, `"p";r=0`, ""},
		{"at once, a denial", atOnce, 2, 1, false, `"p";r=0;t=30`, "30"},
		{"a day of 23 hours", berlin, 0, 1, true, `"p";r=1;t=75600`, ""},
		{"a day of 23 hours, a denial", berlin, 2, 1, false, `"p";r=0;t=75600`, "75600"},
		{"a month of 31 days", weir.Limit{Kind: weir.Fixed, Max: 2, Period: weir.Month}, 0, 1, true, `"p";r=1;t=255600`, ""},
		{"from the first hit", weir.Limit{Kind: weir.FixedFromFirst, Max: 2, Window: time.Minute}, 2, 1, false, `"p";r=0;t=60`, "60"},
	} {
		c.limit.Name = "limit"
		l := newLimiter(t, weir.Policy{Name: "p", Limits: []weir.Limit{c.limit}})
		if d, err := l.At(at).AllowN(t.Context(), weir.K(), c.before); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		o := Outcome{Compiled: l.Compiled(), N: c.n, States: make([]weir.LimitState, 1)}
		o.Decision = must.Get(l.Decide(t.Context(), o.Key, weir.Request{N: c.n, At: at, States: o.States}))(t)
		h := http.Header{}
		o.WriteHeaders(h)
		wantField(t, c.name, h["Ratelimit"], c.field)
		if o.Decision.Allowed != c.allowed || h.Get("Retry-After") != c.retry {
			t.Errorf("%s: got %v, %v; want Retry-After %q", c.name, o.Decision, h, c.retry)
		}
	}
}

// TestFieldsOfRateAndConcurrency: a limit of units in use at once denies, and does not hide the room of a rate.
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
		wantRetryAfter(t, second, "60")
		if got := second.Header.Get("RateLimit"); got != `"farm.jobs";r=0;t=60` {
			t.Errorf("a denial: got %v", second.Header)
		}
	})
}

// TestRateLimitField: a grant has all limits, a denial only those that denied.
func TestRateLimitField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Middleware(newLimiter(t, slack), By{"category": Header("Category")})(new(served))
		errs, info := with("Category", "errors"), with("Category", "info")
		for _, c := range []struct {
			name     string
			after    time.Duration
			category func(*http.Request)
			field    string
			retry    string
		}{
			{"a grant: all limits, and the gap", 0, errs, `"slack-alerts.channel";r=99;t=1800, "slack-alerts.category";r=1;t=1800, "slack-alerts.category.interval";r=0;t=3`, ""},
			{"too close: only the gap", time.Second, errs, `"slack-alerts.category.interval";r=0;t=2`, "2"},
			{"a second grant", 2 * time.Second, errs, `"slack-alerts.channel";r=98;t=1797, "slack-alerts.category";r=0;t=1797, "slack-alerts.category.interval";r=0;t=3`, ""},
			{"full and too close: units and gap", 0, errs, `"slack-alerts.category";r=0;t=1797, "slack-alerts.category.interval";r=0;t=3`, "1797"},
			{"full, the gap open: only units", 3 * time.Second, errs, `"slack-alerts.category";r=0;t=1794`, "1794"},
			{"another category", 0, info, `"slack-alerts.channel";r=97;t=1794, "slack-alerts.category";r=1;t=1800, "slack-alerts.category.interval";r=0;t=3`, ""},
		} {
			time.Sleep(c.after)
			r := get(h, c.category)
			wantField(t, c.name, r.Header["Ratelimit"], c.field)
			if got := r.Header.Get("Retry-After"); got != c.retry || (r.StatusCode == 429) != (c.retry != "") {
				t.Errorf("%s: status %d, Retry-After %q; want %q", c.name, r.StatusCode, got, c.retry)
			}
		}
	})
}

func wantRetryAfter(t *testing.T, r *http.Response, want string) {
	t.Helper()
	if got := r.Header.Get("Retry-After"); r.StatusCode != 429 || got != want {
		t.Errorf("status %d, Retry-After %q; want 429, %q", r.StatusCode, got, want)
	}
}

// TestRetryAfterOfAnOverdrawnLimit: a limit that Record took above its Max has room only after
// several units expire, so t must not be the instant of the first.
func TestRetryAfterOfAnOverdrawnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, search)
		for range 2 {
			must.Get(l.Record(t.Context(), weir.K("192.0.2.1"), 2))(t)
			time.Sleep(10 * time.Second)
		}
		r := get(Middleware(l, By{"ip": ClientIP()})(new(served)))
		wantField(t, "4 of 2 used, the first 2 leave in 40s", r.Header["Ratelimit"], `"search";r=0;t=50`)
		wantRetryAfter(t, r, "50")
	})
}

func TestNestedMiddlewareDescribesBothPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLimiter(t, weir.Policy{Name: "all", Limits: []weir.Limit{weir.PerSecond(1)}})
		h := Middleware(newLimiter(t, search), By{"ip": ClientIP()})(Middleware(inner, nil)(new(served)))
		wantField(t, "both grant", get(h).Header["Ratelimit"], `"search";r=1;t=60, "all";r=0;t=1`)
		r := get(h)
		wantField(t, "the inner one denies", r.Header["Ratelimit"], `"all";r=0;t=1`)
		wantField(t, "policies of both", r.Header["Ratelimit-Policy"], `"search";q=2;w=60, "all";q=1;w=1`)
		wantRetryAfter(t, r, "1")
	})
}

// TestDegradedDecisionsHaveNoFields: a fallback that decides without states publishes none.
func TestDegradedDecisionsHaveNoFields(t *testing.T) {
	plan := must.Get(search.Compile())(t)
	o := Outcome{Compiled: plan, Key: weir.K("192.0.2.1"), N: 1, Decision: weir.Decision{Degraded: true}, States: make([]weir.LimitState, 1)}
	h := http.Header{}
	o.WriteHeaders(h)
	w := httptest.NewRecorder()
	o.WriteProblem(w, 429)
	if p := readProblem(t, w.Result()); h.Get("Retry-After") != "1" || h.Get("RateLimit") != "" || len(p.Violated) != 0 {
		t.Errorf("got %v, violated %v; want Retry-After 1 and no state", h, p.Violated)
	}
}
