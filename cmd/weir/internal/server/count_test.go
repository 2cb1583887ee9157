package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
)

// countPolicies have the parts of a policy file that choose numbers, or what is charged.
const countPolicies = `  two:      {limits: {user: 9 per minute per user, all: 40 per 10m}}
  denied:   {limit: 5 per minute per user, denied: counted}
  reported: {limit: 4 per minute per user, count: reported}
  plans:
    limit: 5 per minute per user
    plan-by: plan
    plans: {gold: unlimited per minute}
    overrides: [{for: {user: b}, limit: 7 per minute, until: forever, why: A customer.}]
`

// TestCountsOfEachPolicy: counts over HTTP and by Redis clients are the units that count under
// the policy, its plan and its override. A count stores nothing.
func TestCountsOfEachPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := weir.NewMemory()
		s, _ := newServer(t, memory, func(c *Config) { c.Policies = parsed(t, countPolicies) })
		play(t, s, `
			let a "key":{"user":"a"}
			let b "key":{"user":"b"}
			POST /v1/check {"policy":"two",$a,"n":3} => 200 {"allowed":true,…"at":"$at",…
			sleep 10s
			POST /v1/check {"policy":"two",$b,"n":4} => 200 {"allowed":true,…
			POST /v1/count {"policy":"two",$a,"limit":"user","last_ms":10001} => 200 {"count":3,"last_ms":10001,"policy":"two","limit":"user","key":{"user":"a"}}
			POST /v1/count {"policy":"two",$a,"limit":"user","last_ms":10000} => 200 {"count":0,…
			POST /v1/count {"policy":"two",$a,"limit":"all","last_ms":600000} => 200 {"count":7,…"limit":"all","key":{}}
			WEIR.COUNT two user=a 10000 LIMIT all => :4
			POST /v1/refund {"policy":"two",$a,"n":2,"at":"$at"} => 200 …"refunded":2}
			POST /v1/count {"policy":"two",$a,"limit":"user","last_ms":60000} => 200 {"count":1,…
			POST /v1/check {"policy":"denied",$a,"n":4} => 200 {"allowed":true,…
			sleep 1us
			POST /v1/check {"policy":"denied",$a,"n":3} => 200 {"allowed":false,…
			WEIR.COUNT denied user=a 1000 => :7
			POST /v1/check {"policy":"reported",$a,"n":2} => 200 {"allowed":true,…
			POST /v1/record {"policy":"reported",$a,"n":3} => 200 …
			POST /v1/count {"policy":"reported",$a,"last_ms":1000} => 200 {"count":3,…
			let gold "policy":"plans","key":{"user":"a","plan":"gold"}
			POST /v1/check {$gold,"n":40} => 200 {"allowed":true,…
			POST /v1/count {$gold,"last_ms":1000} => 200 {"count":40,…
			WEIR.COUNT plans user=a plan=gold 1000 => :40
			POST /v1/check {"policy":"plans",$b,"n":7} => 200 {"allowed":true,…
			POST /v1/count {"policy":"plans",$b,"last_ms":1000} => 200 {"count":7,…
			# it is counted like a peek
			metric weir_decisions_total{outcome="peeked",policy="plans",protocol="http"} 2
			metric weir_decisions_total{outcome="peeked",policy="plans",protocol="resp"} 1
		`)
		before := memory.Len()
		play(t, s, `
			POST /v1/count {"policy":"two","key":{"user":"nobody"},"limit":"user","last_ms":1000} => 200 {"count":0,…
			WEIR.COUNT denied user=nobody 1000 => :0
		`)
		if after := memory.Len(); after != before {
			t.Errorf("counts of an unknown key: %d keys, then %d", before, after)
		}
	})
}

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

// TestBadCountBodiesAreRejected: faults that only JSON can have are rejected with their place.
func TestBadCountBodiesAreRejected(t *testing.T) {
	s, _ := newServer(t, unreached{t})
	play(t, s, `
		let one "policy":"search","key":{"ip":"1"}
		POST /v1/count => 400 …send {"policy":"…","key":{…},"last_ms":20000}…
		POST /v1/count {$one,"n":1} => 400 …unknown member n; this call takes policy, key, limit, last_ms…
		POST /v1/count {$one,"last_s":20} => 400 …takes policy, key, limit, last_ms…
		POST /v1/count {$one,"last_ms":1,"last_ms":2} => 400 …"last_ms" is given twice…
		POST /v1/count {$one,"last_ms":"20000"} => 400 …byte 47: "last_ms" must be a whole number, 1 to the window…
		POST /v1/count {$one,"last_ms":null} => 400 …"last_ms" must be a whole number…
		POST /v1/count {$one,"last_ms":1,"limit":1} => 400 …byte 57: "limit" must be a string…
		POST /v1/count {$one,"last_ms":1,"limit":""} => 400 …"limit" must be the name of a limit; leave it away…
		POST /v1/count {$one,"last_ms":1,"limit":"\u001b[2J"} => 400 …no limit "\x1b[2J"…
		POST /v1/count {"policy":"search","last_ms":1} => 400 …needs a value for "ip"…
		POST /v1/count {"key":{"ip":"1"},"last_ms":1} => 400 …"policy" is missing…
	`)
}

// TestWholeWindowCanBeCounted: the longest span is the window, rounded up to milliseconds as
// window_ms is.
func TestWholeWindowCanBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil, func(c *Config) { c.Policies = parsed(t, badCountPolicies) })
		play(t, s, `
			let short "policy":"short","key":{"ip":"1"}
			POST /v1/record {$short,"n":2} => 200 …
			sleep 1499us
			POST /v1/count {$short,"last_ms":1} => 200 {"count":0,…
			POST /v1/count {$short,"last_ms":2} => 200 {"count":2,…
			sleep 1us
			POST /v1/count {$short,"last_ms":2} => 200 {"count":0,…
		`)
	})
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
