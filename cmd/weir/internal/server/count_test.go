package server

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// countPolicies have every part of a policy file that could change a count.
const countPolicies = `  two:      {limits: {user: 9 per minute per user, all: 40 per 10m}}
  part:     {limit: 7 per 90s per user, batch: partial}
  denied:   {limit: 5 per minute per user, denied: counted}
  shadow:   {limit: 4 per minute per user, shadow: true}
  blocks:   {limit: "4 per minute per user, then block 5m"}
  warns:    {limit: 8 per minute per user, warn: 50%}
  reported: {limit: 4 per minute per user, count: reported}
  costs:    {limits: {calls: 9 per minute per user, tokens: 30 per 5m per user}, costs: {calls: 2, tokens: n}}
  cells:    {limit: 30 per 10m per user, cells: 7}
  plans:
    limit: 5 per minute per user
    plan-by: plan
    plans: {gold: unlimited per minute}
    overrides: [{for: {user: b}, limit: 7 per minute, until: forever, why: A customer.}]
`

// counted is an answer to /v1/count.
type counted struct {
	Count  int64             `json:"count"`
	LastMS int64             `json:"last_ms"`
	Policy string            `json:"policy"`
	Limit  string            `json:"limit"`
	Key    map[string]string `json:"key"`
}

// countOf posts a body that must be answered with a count.
func countOf(t *testing.T, s *Server, body string) (got counted) {
	t.Helper()
	r := ask(s, "POST", "/v1/count", body)
	if r.status != 200 || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("count of %s: status %d, %s", body, r.status, r.body)
	}
	readStrictly(t, r.body, &got)
	return got
}

// TestCountsAgreeWithTheSpecification: after random attempts, records and refunds, counts over
// HTTP and by Redis clients are those of the specification, for every kind of policy. Counts
// change no answer and store nothing.
func TestCountsAgreeWithTheSpecification(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c := newCounts(t, seed)
			for range 150 {
				time.Sleep(time.Duration(c.r.Int64N(int64(10*time.Second))) / 1000 * 1000)
				c.change()
				c.compare()
			}
			if c.positive < 20 || c.rejected < 5 {
				t.Errorf("seed %d: %d counts above 0 and %d rejected; the traces test little", seed, c.positive, c.rejected)
			}
		})
	}
}

// counts is a server beside the specification of its limits.
type counts struct {
	t        *testing.T
	r        *rand.Rand
	seed     uint64
	memory   *weir.Memory
	s        *Server
	mirror   *spec.Engine
	grants   map[string][]time.Time // by policy and user
	positive int
	rejected int
}

func newCounts(t *testing.T, seed uint64) *counts {
	c := &counts{t: t, r: rand.New(rand.NewPCG(seed, 26)), seed: seed, memory: weir.NewMemory(), mirror: spec.New(), grants: map[string][]time.Time{}}
	c.s, _ = newServer(t, c.memory, func(c *Config) { c.Policies = parsed(t, countPolicies) })
	return c
}

// someKey returns a policy and a user at random, the key in JSON and as a Redis client
// writes it, and the limits in force for the key. Each user keeps its plan.
func (c *counts) someKey() (policy, user, object string, pairs []string, in *enforce.Variation) {
	all := c.s.set().Policies
	p := all[c.r.IntN(len(all))]
	user = string(rune('a' + c.r.IntN(3)))
	object, pairs = fmt.Sprintf(`{"user":%q}`, user), []string{"user=" + user}
	plan := enforce.None
	if p.Name == "plans" && user == "a" {
		object, pairs, plan = `{"user":"a","plan":"gold"}`, append(pairs, "plan=gold"), p.PlanOf("gold")
	}
	key := weir.K(user)
	return p.Name, user, object, pairs, p.Choose(&key, plan, time.Time{})
}

// specified returns the limiter of the limits on the specification.
func (c *counts) specified(in *enforce.Variation) *weir.Limiter {
	c.t.Helper()
	l, err := weir.New(weir.Policy{Name: in.Name, Mode: in.Mode, Limits: in.Limits}, weir.WithEngine(c.mirror))
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// change makes an attempt, a record or a refund, and the same change of the specification.
func (c *counts) change() {
	policy, user, object, _, in := c.someKey()
	n := int64(c.r.IntN(5))
	body := fmt.Sprintf(`{"policy":%q,"key":%s,"n":%d`, policy, object, n)
	l, ctx, key := c.specified(in), c.t.Context(), weir.K(user)
	grants := c.grants[policy+user]
	if x := c.r.IntN(10); x == 0 && len(grants) > 0 {
		at := grants[c.r.IntN(len(grants))]
		r := ask(c.s, "POST", "/v1/refund", fmt.Sprintf(`%s,"granted_at_us":%d}`, body, at.UnixMicro()))
		want, err := l.Refund(ctx, key, at, n)
		if r.status != 200 || err != nil || !strings.HasSuffix(r.body, fmt.Sprintf(`"refunded":%d}`+"\n", want)) {
			c.t.Errorf("seed %d: refund %s: %d %s want %d, %v", c.seed, body, r.status, r.body, want, err)
		}
		return
	} else if x == 1 || policy == "reported" {
		ask(c.s, "POST", "/v1/record", body+"}")
	} else {
		var d struct {
			Granted int64
			Would   *struct{ Granted int64 }
		}
		if err := json.Unmarshal([]byte(ask(c.s, "POST", "/v1/check", body+"}").body), &d); err != nil {
			c.t.Fatal(err)
		}
		if policy != "denied" {
			n = d.Granted
		}
		if d.Would != nil {
			n = d.Would.Granted
		}
	}
	if _, err := l.Record(ctx, key, n); err != nil {
		c.t.Fatal(err)
	}
	c.grants[policy+user] = append(grants, time.Now())
}

// compare counts a random span of a random limit on both fronts.
func (c *counts) compare() {
	policy, user, object, pairs, in := c.someKey()
	plan := in.Limiter.Compiled()
	limit := &plan.Limits[c.r.IntN(len(plan.Limits))]
	window := limit.Window / 1000
	span := 1 + c.r.Int64N(window+window/8)
	if c.r.IntN(8) == 0 {
		span = window
	}
	name := limit.Name
	if len(plan.Limits) == 1 && c.r.IntN(2) == 0 {
		name = ""
	}
	body := fmt.Sprintf(`{"policy":%q,"key":%s,"last_ms":%d`, policy, object, span)
	if name != "" {
		body += fmt.Sprintf(`,"limit":%q`, name)
	}
	body += "}"
	before, keys := c.state(policy, object), c.memory.Len()
	overHTTP := ask(c.s, "POST", "/v1/count", body)
	command := fmt.Sprintf("WEIR.COUNT %s %s %d", policy, strings.Join(pairs, " "), span)
	if name != "" {
		command += " LIMIT " + name
	}
	overRESP := askRESP(c.t, c.s, command)
	if after := c.state(policy, object); after != before || c.memory.Len() != keys {
		c.t.Errorf("seed %d: a count changed %d keys and\n%s to %d keys and\n%s", c.seed, keys, before, c.memory.Len(), after)
	}
	if span > window {
		c.rejected++
		wantProblem(c.t, body, overHTTP, 400, fmt.Sprintf(`"last_ms" must be 1 to %d, the window of limit %q in milliseconds`, window, limit.Name))
		if !strings.HasPrefix(overRESP, "-ERR ") {
			c.t.Errorf("seed %d: %s is %s for a Redis client", c.seed, body, overRESP)
		}
		return
	}
	want, err := c.specified(in).Count(c.t.Context(), weir.K(user), limit.Name, time.Duration(span)*time.Millisecond)
	if err != nil {
		c.t.Fatal(err)
	}
	if want > 0 {
		c.positive++
	}
	var got counted
	readStrictly(c.t, overHTTP.body, &got)
	key := map[string]string{}
	if len(limit.By) > 0 {
		key["user"] = user
	}
	if wanted := (counted{want, span, policy, limit.Name, key}); !reflect.DeepEqual(got, wanted) || overRESP != fmt.Sprintf(":%d ", want) {
		c.t.Errorf("seed %d: %s\ngot  %+v and %s by RESP\nwant %+v", c.seed, body, got, overRESP, wanted)
	}
}

// state returns the answer to a peek.
func (c *counts) state(policy, object string) string {
	return ask(c.s, "POST", "/v1/peek", fmt.Sprintf(`{"policy":%q,"key":%s}`, policy, object)).body
}

// TestCountsOnRedis: over both listeners, counts are those of a Limiter on the same Redis, and
// no key of the store changes.
func TestCountsOnRedis(t *testing.T) {
	store := redistest.Start(t)
	engine, _ := enginetest.On(t, store.Addr)
	s, _ := newServer(t, engine, withRESP, func(c *Config) { c.Policies = parsed(t, countPolicies) })
	start(t, s)
	count := func(body string) (got counted) {
		t.Helper()
		r, err := http.Post("http://"+s.Addr()+"/v1/count", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: %d %s, %v", body, r.StatusCode, text, err)
		}
		readStrictly(t, string(text), &got)
		return got
	}
	r := rand.New(rand.NewPCG(26, 26))
	for range 60 {
		p := s.set().Policies[r.IntN(len(s.set().Policies))]
		ask(s, "POST", "/v1/check", fmt.Sprintf(`{"policy":%q,"key":{"user":"a"},"n":%d}`, p.Name, r.IntN(4)))
	}
	decide(t, s, "/v1/record", `{"policy":"reported","key":{"user":"a"},"n":3}`)
	before := dump(t, store)
	positive := 0
	for _, p := range s.set().Policies {
		limiter := p.Base().Limiter
		for _, l := range limiter.Compiled().Limits {
			for _, user := range []string{"a", "nobody"} {
				for _, ms := range []int64{1, 200, l.Window / 2000, l.Window / 1000} {
					of := func() int64 {
						n, err := limiter.Count(t.Context(), weir.K(user), l.Name, time.Duration(ms)*time.Millisecond)
						if err != nil {
							t.Fatal(err)
						}
						return n
					}
					// Units only leave between two counts, so each is at most the one before.
					most := of()
					got := count(fmt.Sprintf(`{"policy":%q,"key":{"user":%q},"limit":%q,"last_ms":%d}`, p.Name, user, l.Name, ms))
					wire := sendTo(t, plainly(s), fmt.Sprintf("WEIR.COUNT %s user=%s %d LIMIT %s", p.Name, user, ms, l.Name))
					least := of()
					var byRESP int64
					if _, err := fmt.Sscanf(wire, ":%d ", &byRESP); err != nil {
						t.Fatalf("WEIR.COUNT: %q", wire)
					}
					if got.Count > most || byRESP > got.Count || least > byRESP {
						t.Errorf("%s of %s, %d ms of %s: %d, then %+v, %d by RESP, then %d", l.Name, p.Name, ms, user, most, got, byRESP, least)
					}
					positive += int(min(got.Count, 1))
				}
			}
		}
	}
	if after := dump(t, store); !reflect.DeepEqual(after, before) {
		t.Errorf("counts changed the store from\n%q to\n%q", before, after)
	}
	if positive < 15 {
		t.Errorf("%d counts above 0; the attempts test little", positive)
	}
}

// dump returns the value of every key.
func dump(t *testing.T, store *redistest.Server) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range store.List(t, "KEYS", "*") {
		all[key] = store.Must(t, "DUMP", key)
	}
	return all
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
	e := &counting{Engine: weir.NewMemory()}
	s, logged := newServer(t, e, withRESP, func(c *Config) { c.Policies = parsed(t, badCountPolicies) })
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
	if e.calls != 0 || logged.Len() != 0 {
		t.Errorf("bad counts reached the engine %d times and the log: %s", e.calls, logged)
	}
	n := len(badCounts)
	wantMetrics(t, s, fmt.Sprintf(`weir_bad_requests_total{protocol="http"} %d`, n), fmt.Sprintf(`weir_bad_requests_total{protocol="resp"} %d`, n))
}

// TestBadCountBodiesAreRejected: faults that only JSON can have are rejected with their place.
func TestBadCountBodiesAreRejected(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s, _ := newServer(t, e)
	const key = `{"policy":"search","key":{"ip":"1"}`
	for _, c := range []struct{ name, body, word string }{
		{"empty", ``, `send {"policy":"…","key":{…},"last_ms":20000}`},
		{"unknown member", key + `,"n":1}`, "unknown member n; this call takes policy, key, limit, last_ms"},
		{"another unit", key + `,"last_s":20}`, "takes policy, key, limit, last_ms"},
		{"twice", key + `,"last_ms":1,"last_ms":2}`, `"last_ms" is given twice`},
		{"a string", key + `,"last_ms":"20000"}`, `byte 47: "last_ms" must be a whole number, 1 to the window`},
		{"null", key + `,"last_ms":null}`, `"last_ms" must be a whole number`},
		{"limit a number", key + `,"last_ms":1,"limit":1}`, `byte 57: "limit" must be a string`},
		{"limit empty", key + `,"last_ms":1,"limit":""}`, `"limit" must be the name of a limit; leave it away`},
		{"limit hostile", key + `,"last_ms":1,"limit":"\u001b[2J"}`, `no limit "\x1b[2J"`},
		{"no key", `{"policy":"search","last_ms":1}`, `needs a value for "ip"`},
		{"no policy", `{"key":{"ip":"1"},"last_ms":1}`, `"policy" is missing`},
	} {
		wantProblem(t, c.name, ask(s, "POST", "/v1/count", c.body), 400, c.word)
	}
	if e.calls != 0 {
		t.Errorf("bad input reached the engine %d times", e.calls)
	}
}

// TestWholeWindowCanBeCounted: the longest span is the window, rounded up to milliseconds as
// window_ms is.
func TestWholeWindowCanBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil, func(c *Config) { c.Policies = parsed(t, badCountPolicies) })
		decide(t, s, "/v1/record", `{"policy":"short","key":{"ip":"1"},"n":2}`)
		time.Sleep(1499 * time.Microsecond)
		for span, want := range map[int64]int64{1: 0, 2: 2} {
			if got := countOf(t, s, fmt.Sprintf(`{"policy":"short","key":{"ip":"1"},"last_ms":%d}`, span)); got.Count != want {
				t.Errorf("the last %d ms: %+v, want %d", span, got, want)
			}
		}
		time.Sleep(time.Microsecond)
		if got := countOf(t, s, `{"policy":"short","key":{"ip":"1"},"last_ms":2}`); got.Count != 0 {
			t.Errorf("after the window: %+v, want 0", got)
		}
	})
}

// TestCountsNeedTheStore: in an outage counts fail with every mode, and count as errors.
func TestCountsNeedTheStore(t *testing.T) {
	for _, mode := range []string{"deny", "allow", "share"} {
		s, logged := newServer(t, fallback.New(down{}, fallback.Deny), withRESP, func(c *Config) {
			c.Policies = parsed(t, "  search: {limit: 2 per minute per ip, when-store-is-down: "+mode+"}\n  shadow: {limit: 2 per minute per ip, shadow: true}\n")
		})
		stop := start(t, s)
		for _, policy := range []string{"search", "shadow"} {
			wantProblem(t, policy, ask(s, "POST", "/v1/count", `{"policy":"`+policy+`","key":{"ip":"192.0.2.1"},"last_ms":1000}`), 503, "the store is unavailable", "try again later")
			if got := sendTo(t, plainly(s), "WEIR.COUNT "+policy+" ip=192.0.2.1 1000"); !strings.HasPrefix(got, "-UNAVAILABLE no decision: the store did not answer") {
				t.Errorf("%s: %q", mode, got)
			}
		}
		wantMetrics(t, s, `weir_decisions_total{outcome="error",policy="search",protocol="http"} 1`, `weir_decisions_total{outcome="error",policy="search",protocol="resp"} 1`)
		stop()
		if text := logged.String(); !strings.Contains(text, errDown.Error()) || strings.Contains(text, "192.0.2.1") {
			t.Errorf("%s: log %s; want the cause, and no key", mode, text)
		}
	}
}

// TestCountsHaveTheRoleOfPeeks: a count needs the credential of a peek, is counted like one,
// and takes a place in the capacity.
func TestCountsHaveTheRoleOfPeeks(t *testing.T) {
	const body = `{"policy":"search","key":{"ip":"1"},"last_ms":1000}`
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Auth.Token, c.Auth.Gate = secret(t, tokenWord), secret(t, gateWord) })
	start(t, s)
	with := func(field, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(field, value) }
	}
	wantProblem(t, "no token", ask(s, "POST", "/v1/count", body), 401)
	wantProblem(t, "a gate's secret", ask(s, "POST", "/v1/count", body, with("Weir-Gate-Secret", gateWord)), 401)
	if r := ask(s, "POST", "/v1/count", body, with("Authorization", "Bearer "+tokenWord)); r.status != 200 {
		t.Errorf("the token: %d %s", r.status, r.body)
	}
	wantProblem(t, "GET", ask(s, "GET", "/v1/count", "", with("Authorization", "Bearer "+tokenWord)), 405, "takes POST")
	if got := sendTo(t, plainly(s), "WEIR.COUNT search ip=1 1000", "AUTH "+tokenWord, "WEIR.COUNT search ip=1 1000"); !strings.HasPrefix(got, "-NOAUTH ") || !strings.HasSuffix(got, "+OK :0 ") {
		t.Errorf("RESP: %q", got)
	}
	r := ask(s, "GET", "/metrics", "", with("Authorization", "Bearer "+tokenWord))
	for _, want := range []string{`{outcome="peeked",policy="search",protocol="http"} 1`, `{outcome="peeked",policy="search",protocol="resp"} 1`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	full, _ := newServer(t, nil, withRESP, func(c *Config) { c.Limits.InFlight = -1 })
	start(t, full)
	wantProblem(t, "no place", ask(full, "POST", "/v1/count", body), 503, "too many requests in flight")
	if got := sendTo(t, plainly(full), "WEIR.COUNT search ip=1 1000"); !strings.HasPrefix(got, "-UNAVAILABLE no decision: too many requests") {
		t.Errorf("no place: %q", got)
	}
}
