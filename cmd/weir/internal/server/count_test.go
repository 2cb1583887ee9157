package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/fallback"
)

const badCountPolicies = `  login:  {limit: 3 per minute per user}
  search: {limits: {ip: 2 per minute per ip, hour: 1000 per hour}}
  short:  {limit: 2 per 1500us per ip}
  bucket: {limit: "10 per second per ip, burst 20"}
  day:    {limit: "10 per day per ip, fixed in Europe/Berlin"}
  grid:   {limit: "10 per hour per ip, fixed"}
  hit:    {limit: "10 per hour per ip, fixed from the first hit"}
  render: {limit: "1 at once per ip, for at most 30s"}
  mixed:  {limits: {rate: 10 per minute per ip, burst: "10 per second per ip, burst 20", day: "100 per day per ip, fixed in Europe/Berlin"}}
`

// badCounts are counts that both fronts reject: the policy, the key, the limit and the span
// in the words of each, and words of the error.
var badCounts = []struct {
	name, policy, key, limit, span string
	words                          []string // after "last_ms" and "limit" without quotes
}{
	{"unknown policy", "serch", "ip", "ip", "1", []string{`no policy "serch"; did you mean "search"?`}},
	{"unknown dimension", "search", "user", "ip", "1", []string{`no dimension "user"`}},
	{"no limit of several", "search", "ip", "", "1", []string{`limit is missing`, `policy "search" has several limits; name one of "ip", "hour"`}},
	{"mistyped limit", "search", "ip", "hours", "1", []string{`no limit "hours" in policy "search"; did you mean "hour"?`}},
	{"unknown limit", "search", "ip", "xyzzy", "1", []string{`no limit "xyzzy" in policy "search"; its limits are "ip", "hour"`}},
	{"unknown limit of one", "login", "user", "xyzzy", "1", []string{`no limit "xyzzy" in policy "login"; its only limit is "limit"`}},
	{"a span of 0", "login", "user", "", "0", []string{`last_ms must be 1 to 60000, the window of limit "limit" in milliseconds`}},
	{"beyond the window", "login", "user", "", "60001", []string{`last_ms must be 1 to 60000`, "a limit with a longer window counts further back"}},
	{"beyond the window of one", "search", "ip", "ip", "3600000", []string{`last_ms must be 1 to 60000, the window of limit "ip"`}},
	{"beyond a duration", "login", "user", "", "2251799813685247", []string{`last_ms must be 1 to 60000`}},
	{"beyond 1.5 ms", "short", "ip", "", "3", []string{`last_ms must be 1 to 2, the window`}},
	{"negative", "login", "user", "", "-1", []string{`last_ms must be a whole number, 1 to the window of the limit in milliseconds`}},
	{"a fraction", "login", "user", "", "1.5", []string{`last_ms must be a whole number, 1 to the window of the limit in milliseconds`}},
	{"an exponent", "login", "user", "", "1e3", []string{`last_ms must be a whole number, 1 to`}},
	{"2^64", "login", "user", "", "18446744073709551616", []string{`last_ms must be a whole number, 1 to`}},
	{"a word", "login", "user", "", "minute", []string{`last_ms must be a whole number, 1 to`}},
	{"no span", "login", "user", "", "", []string{`last_ms is missing: the span to count, 1 to the window of the limit in milliseconds`}},
	{"a bucket", "bucket", "ip", "", "1000", []string{`limit "limit" of policy "bucket" is a bucket, which stores no instants to count; a peek returns its room`}},
	{"a day", "day", "ip", "", "1000", []string{`limit "limit" of policy "day" has fixed windows, which store no instants to count; a peek returns its room`}},
	{"a fixed hour", "grid", "ip", "", "1000", []string{"has fixed windows"}},
	{"from the first hit", "hit", "ip", "", "1000", []string{"has fixed windows"}},
	{"at once", "render", "ip", "", "1000", []string{`limit "limit" of policy "render" counts units in use at once, not those of a span; a peek returns its room`}},
	{"a bucket of several", "mixed", "ip", "burst", "1000", []string{`limit "burst" of policy "mixed" is a bucket`, `a peek returns its room; rolling limits of this policy: "rate"`}},
}

// TestBadCountsAreRejected: both fronts reject the same counts with the same reason, before
// they reach the engine (R14).
func TestBadCountsAreRejected(t *testing.T) {
	s, logged := newServer(t, unreached{t}, withRESP, func(c *Config) { c.Policies = parsed(t, badCountPolicies) })
	start(t, s)
	for _, c := range badCounts {
		body, command := fmt.Sprintf(`{"policy":%q,"key":{%q:"1"}`, c.policy, c.key), fmt.Sprintf("WEIR.COUNT %s %s=1", c.policy, c.key)
		if c.span != "" {
			body, command = body+`,"last_ms":`+c.span, command+" "+c.span
		}
		if c.limit != "" {
			body, command = body+fmt.Sprintf(`,"limit":%q`, c.limit), command+" LIMIT "+c.limit
		}
		var words []string
		for _, word := range c.words {
			for _, name := range []string{"last_ms ", "limit is missing"} {
				if rest, ok := strings.CutPrefix(word, name); ok {
					field, after, _ := strings.Cut(name, " ")
					word = fmt.Sprintf("%q %s", field, after+rest)
				}
			}
			words = append(words, word)
		}
		wantProblem(t, c.name, ask(s, "POST", "/v1/count", body+"}"), 400, words...)
		got := sendTo(t, plainly(s), command)
		if !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s: %q, want an error", command, got)
		}
		for _, word := range c.words {
			if !strings.Contains(got, word) {
				t.Errorf("%s: %q, want %q in it", command, got, word)
			}
		}
	}
	if logged.Len() != 0 {
		t.Errorf("bad counts reached the log: %s", logged)
	}
	n := len(badCounts)
	wantMetrics(t, s, fmt.Sprintf(`weir_bad_requests_total{protocol="http"} %d`, n), fmt.Sprintf(`weir_bad_requests_total{protocol="resp"} %d`, n))
}

// TestCountsNeedTheStore: in an outage counts fail with every mode, and count as errors.
func TestCountsNeedTheStore(t *testing.T) {
	for _, mode := range []string{"deny", "allow", "share"} {
		s, logged := newServer(t, fallback.New(down{}, fallback.Deny), func(c *Config) {
			c.Policies = parsed(t, "  search: {limit: 2 per minute per ip, when-store-is-down: "+mode+"}\n  shadow: {limit: 2 per minute per ip, shadow: true}\n")
		})
		play(t, s, strings.ReplaceAll(`
			POST /v1/count {"policy":"search","key":{"ip":"192.0.2.1"},"last_ms":1000} => DOWN
			POST /v1/count {"policy":"shadow","key":{"ip":"192.0.2.1"},"last_ms":1000} => DOWN
			WEIR.COUNT search ip=192.0.2.1 1000 => -UNAVAILABLE no decision: the store is unavailable…
			WEIR.COUNT shadow ip=192.0.2.1 1000 => -UNAVAILABLE no decision: the store is unavailable…
			metric weir_decisions_total{outcome="error",policy="search",protocol="http"} 1
			metric weir_decisions_total{outcome="error",policy="search",protocol="resp"} 1
		`, "DOWN", "503 …the store is unavailable…try again later…"))
		if text := logged.String(); !strings.Contains(text, errDown.Error()) || strings.Contains(text, "192.0.2.1") {
			t.Errorf("%s: log %s; want the cause, and no key", mode, text)
		}
	}
}
