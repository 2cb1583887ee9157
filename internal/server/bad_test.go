package server

import (
	"context"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

var badBodies = []struct {
	name, body string
	words      []string // that the detail holds
}{
	{"empty", ``, []string{"the body is empty", `{"policy"`}},
	{"blank", " \n", []string{"the body is empty"}},
	{"no JSON", `policy=search`, []string{"byte 1", "object"}},
	{"an array", `[]`, []string{"byte 1", "object"}},
	{"null", `null`, []string{"byte 1", "object"}},
	{"cut off", `{"policy":"search"`, []string{"byte 19", "comma or }"}},
	{"cut in a string", `{"policy":"sea`, []string{"byte 11", "does not end"}},
	{"cut in an escape", `{"policy":"sea\`, []string{"byte 15", "escape"}},
	{"no colon", `{"policy" "search"}`, []string{"byte 11", "colon"}},
	{"comma at the end", `{"policy":"search",}`, []string{"byte 20", "string"}},
	{"two commas", `{"policy":"search",,"n":1}`, []string{"byte 20"}},
	{"trailing object", `{"policy":"search","key":{"ip":"1"}}{}`, []string{"byte 37", "more text"}},
	{"trailing NUL", "{\"policy\":\"search\",\"key\":{\"ip\":\"1\"}}\x00", []string{"byte 37", "more text"}},
	{"unknown member", `{"policy":"search","key":{"ip":"1"},"cost":1}`, []string{"byte 37", "cost", "takes policy, key, n"}},
	{"member in other case", `{"Policy":"search","key":{"ip":"1"}}`, []string{"Policy", "unknown"}},
	{"hostile member", `{"\u001b[2J":1}`, []string{`"\x1b[2J"`}},
	{"policy twice", `{"policy":"search","policy":"push"}`, []string{"byte 20", `"policy" is given twice`}},
	{"n twice", `{"policy":"search","n":1,"n":1}`, []string{`"n" is given twice`}},
	{"twice by an escape", `{"policy":"search","n":1,"\u006e":1}`, []string{`"n" is given twice`}},
	{"dimension twice", `{"policy":"search","key":{"ip":"1","ip":"2"}}`, []string{"byte 36", "ip is given twice"}},
	{"no policy", `{"key":{"ip":"1"}}`, []string{`"policy" is missing`, "GET /v1/policies"}},
	{"unknown policy", `{"policy":"serch","key":{"ip":"1"}}`, []string{"no policy serch", "GET /v1/policies", "push"}},
	{"empty policy", `{"policy":"","key":{"ip":"1"}}`, []string{`no policy ""`}},
	{"policy of a wrong type", `{"policy":7}`, []string{"byte 11", `"policy" must be a string`}},
	{"key missing", `{"policy":"search"}`, []string{`needs a value for "ip"`}},
	{"key of a wrong type", `{"policy":"search","key":"ip"}`, []string{"byte 26", `"key" must be an object`}},
	{"key null", `{"policy":"search","key":null}`, []string{`"key" must be an object`}},
	{"value of a wrong type", `{"policy":"search","key":{"ip":42}}`, []string{"byte 32", "the value of ip must be a string"}},
	{"value nested", `{"policy":"search","key":{"ip":{"a":{}}}}`, []string{"the value of ip must be a string"}},
	{"dimension missing", `{"policy":"search","key":{}}`, []string{`needs a value for "ip"`}},
	{"dimension unknown", `{"policy":"search","key":{"ip":"1","user":"2"}}`, []string{`no dimension "user"`, `"ip"`}},
	{"dimension of nobody", `{"policy":"batch","key":{"ip":"1"}}`, []string{`no dimension "ip"`, "one history for all"}},
	{"17 dimensions", `{"policy":"search","key":{` + dimensions(17) + `}}`, []string{"more than 16"}},
	{"value of 1025 bytes", `{"policy":"search","key":{"ip":"` + strings.Repeat("x", 1025) + `"}}`, []string{"1025 bytes", "1024"}},
	{"n negative", `{"policy":"search","key":{"ip":"1"},"n":-1}`, []string{"byte 41", "0 to 9007199254740991"}},
	{"n 2^53", `{"policy":"search","key":{"ip":"1"},"n":9007199254740992}`, []string{"0 to 9007199254740991"}},
	{"n 2^63", `{"policy":"search","key":{"ip":"1"},"n":9223372036854775808}`, []string{"0 to 9007199254740991"}},
	{"n of 400 digits", `{"policy":"search","key":{"ip":"1"},"n":` + strings.Repeat("9", 400) + `}`, []string{"0 to 9007199254740991"}},
	{"n a fraction", `{"policy":"search","key":{"ip":"1"},"n":1.5}`, []string{"whole number"}},
	{"n whole with a fraction", `{"policy":"search","key":{"ip":"1"},"n":1.0}`, []string{"whole number"}},
	{"n 1e308", `{"policy":"search","key":{"ip":"1"},"n":1e308}`, []string{"whole number"}},
	{"n NaN", `{"policy":"search","key":{"ip":"1"},"n":NaN}`, []string{"whole number"}},
	{"n a string", `{"policy":"search","key":{"ip":"1"},"n":"1"}`, []string{"no quotes"}},
	{"n with _", `{"policy":"search","key":{"ip":"1"},"n":1_000}`, []string{"byte 42", "comma or }"}},
	{"n with a zero before", `{"policy":"search","key":{"ip":"1"},"n":01}`, []string{"whole number"}},
	{"n null", `{"policy":"search","key":{"ip":"1"},"n":null}`, []string{"whole number"}},
	{"n true", `{"policy":"search","key":{"ip":"1"},"n":true}`, []string{"whole number"}},
	{"half a surrogate pair", `{"policy":"search","key":{"ip":"\ud83d"}}`, []string{"byte 33", "surrogate", "write both halves"}},
	{"the other half", `{"policy":"search","key":{"ip":"\ude00x"}}`, []string{"surrogate"}},
	{"two first halves", `{"policy":"search","key":{"ip":"\ud83d\ud83d"}}`, []string{"surrogate"}},
	{"unknown escape", `{"policy":"search","key":{"ip":"\x41"}}`, []string{"escape"}},
	{"short escape", `{"policy":"search","key":{"ip":"\u00g0"}}`, []string{"byte 33", `\u needs four hexadecimal digits`}},
	{"raw control character", "{\"policy\":\"search\",\"key\":{\"ip\":\"a\nb\"}}", []string{"byte 34", "control character"}},
	{"too long", `{"policy":"search","key":{"ip":"1"}}` + strings.Repeat(" ", maxBody), []string{"64 KiB"}},
	{"deep", strings.Repeat(`{"key":`, 5000), []string{"must be a string"}},
	{"refund's member", `{"policy":"search","key":{"ip":"1"},"granted_at_us":1}`, []string{"granted_at_us", "unknown"}},
}

func dimensions(n int) string {
	var b []string
	for i := range n {
		b = append(b, `"d`+string(rune('a'+i))+`":"1"`)
	}
	return strings.Join(b, ",")
}

// counting counts the calls that reach an engine.
type counting struct {
	weir.Engine
	calls int
}

func (c *counting) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	c.calls++
	return c.Engine.Decide(ctx, p, k, a)
}

func (c *counting) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	c.calls++
	return c.Engine.Refund(ctx, p, k, at, n, now)
}

func (c *counting) Reset(ctx context.Context, p *weir.Plan, k weir.Key) error {
	c.calls++
	return c.Engine.Reset(ctx, p, k)
}

// Bad input is answered with 400 that says what and where, and reaches no engine (R14).
func TestBadBodies(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s, logged := newServer(t, e)
	for _, c := range badBodies {
		for _, path := range []string{"/v1/check", "/v1/peek", "/v1/record"} {
			r := ask(s, "POST", path, c.body)
			if p := wantProblem(t, path+" "+c.name, r, 400, c.words...); len(p.Detail) > 400 {
				t.Errorf("%s: a detail of %d bytes", c.name, len(p.Detail))
			}
		}
	}
	if e.calls != 0 || logged.Len() != 0 {
		t.Errorf("bad input reached the engine %d times and the log: %s", e.calls, logged)
	}
}

func TestBadRefunds(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s, _ := newServer(t, e)
	const key = `{"policy":"search","key":{"ip":"1"}`
	for _, c := range []struct{ name, body, word string }{
		{"no instant", key + `}`, `"granted_at_us" is missing`},
		{"two instants", key + `,"granted_at_us":1,"at":"2026-11-20T13:07:31Z"}`, "give one of them"},
		{"negative", key + `,"granted_at_us":-5}`, `"granted_at_us" must be a whole number`},
		{"a string", key + `,"granted_at_us":"5"}`, `"granted_at_us" must be a whole number`},
		{"no time", key + `,"at":"yesterday"}`, `"at" must be the instant`},
		{"nanoseconds", key + `,"at":"2026-11-20T13:07:31.000000001Z"}`, `"at" must be the instant`},
		{"before 1970", key + `,"at":"1969-12-31T23:59:59Z"}`, `"at" must be the instant`},
		{"after 2255", key + `,"at":"2256-01-01T00:00:00Z"}`, `"at" must be the instant`},
		{"a number", key + `,"at":5}`, `"at" must be a string`},
		{"unknown member", key + `,"granted_at":5}`, "granted_at_us or at"},
	} {
		wantProblem(t, c.name, ask(s, "POST", "/v1/refund", c.body), 400, c.word)
	}
	if e.calls != 0 {
		t.Errorf("bad input reached the engine %d times", e.calls)
	}
}
