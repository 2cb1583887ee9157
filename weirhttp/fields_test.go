package weirhttp

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/fields"
	"github.com/weirlimit/weir/policy"
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

// TestFields decides the calls of testdata/fields.txt, of which the policies are lines of a policy
// file, and compares the header fields. t is never later than Retry-After.
func TestFields(t *testing.T) {
	var l *weir.Limiter
	var from time.Time
	text, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		call, want, decides := strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
		words := append(strings.Fields(call), "", "", "")
		switch {
		case words[0] == "from":
			var err error
			from, err = time.Parse(time.RFC3339, words[1])
			if err != nil {
				t.Fatal(err)
			}
		case words[0] == "p:":
			f, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  "+line))
			if err != nil {
				t.Fatal(err)
			}
			value, err := f.Policies[0].Policy()
			if err != nil {
				t.Fatal(err)
			}
			l = newLimiter(t, value)
		case decides:
			got := fields.Policy(l.Compiled())
			if words[0] != "policy" {
				duration, err := time.ParseDuration(words[0][1:])
				if err != nil {
					t.Fatal(err)
				}
				h := fieldsOf(t, l, from.Add(duration), words[1:])
				got = strings.Join(h["Ratelimit"], ", ")
				if retry := h.Get("Retry-After"); retry != "" {
					got += ", Retry-After: " + retry
				}
			}
			field, _, _ := strings.Cut(got, ", Retry-After")
			if got != want || !structured.MatchString(field) {
				t.Errorf("%v, %s\ngot  %s\nwant %s", l.Compiled().Limits[0].Kind, call, got, want)
			}
		}
	}
}

// fieldsOf decides units, an attempt or a record, and returns the header fields. The problem
// document of a denial has the same limits.
func fieldsOf(t *testing.T, l *weir.Limiter, at time.Time, words []string) http.Header {
	t.Helper()
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	o := Outcome{weir.Outcome{Rules: l.Compiled(), N: n, States: make([]weir.LimitState, len(l.Compiled().Limits))}}
	if len(l.Compiled().Dimensions) > 0 {
		o.Key = weir.K("42")
	}
	c := weir.Call{Limiter: l, Key: o.Key, Request: weir.Request{N: o.N, At: at, States: o.States}}
	switch {
	case o.N == 0:
		c.Op = engine.Peek
	case words[1] == "record":
		c.Op = engine.Record
	}
	o.Decision, err = c.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h, w := http.Header{}, httptest.NewRecorder()
	o.WriteHeaders(h)
	o.WriteProblem(w, 429)
	if p := readProblem(t, w.Result()); !o.Decision.Allowed && len(p.Violated) != strings.Count(h["Ratelimit"][0], ";r=") {
		t.Errorf("the problem has %q, and the field %q", p.Violated, h["Ratelimit"])
	}
	return h
}

// TestFieldsOfRateAndConcurrency: a limit of units in use at once denies, and does not hide the room of a rate.
func TestFieldsOfRateAndConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, weir.Policy{Name: "farm", Limits: []weir.Limit{
			{Name: "jobs", Kind: weir.KindConcurrency, Max: 1, MaxHold: time.Minute}, {Name: "day", Max: 1000, Window: 24 * time.Hour}}})
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

func wantRetryAfter(t *testing.T, r *http.Response, want string) {
	t.Helper()
	if got := r.Header.Get("Retry-After"); r.StatusCode != 429 || got != want {
		t.Errorf("status %d, Retry-After %q; want 429, %q", r.StatusCode, got, want)
	}
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
	plan, err := search.Compile()
	if err != nil {
		t.Fatal(err)
	}
	o := Outcome{weir.Outcome{Rules: plan, Key: weir.K("192.0.2.1"), N: 1, Decision: weir.Decision{Degraded: true}, States: make([]weir.LimitState, 1)}}
	h := http.Header{}
	o.WriteHeaders(h)
	w := httptest.NewRecorder()
	o.WriteProblem(w, 429)
	if p := readProblem(t, w.Result()); h.Get("Retry-After") != "1" || h.Get("RateLimit") != "" || len(p.Violated) != 0 {
		t.Errorf("got %v, violated %v; want Retry-After 1 and no state", h, p.Violated)
	}
}
