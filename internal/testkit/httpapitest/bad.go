// Package httpapitest holds requests that every reader of the HTTP interface must reject,
// for the tests of the readers and of the server.
package httpapitest

import "strings"

// Bodies are bodies that POST /v1/check rejects.
var Bodies = []struct {
	Name, Body string
	Words      []string // that the detail of the answer holds
}{
	{"empty", ``, []string{"the body is empty", `{"policy"`}},
	{"blank", " \n", []string{"the body is empty"}},
	{"no JSON", `policy=search`, []string{"byte 1", "object"}},
	{"an array", `[]`, []string{"byte 1", "object"}},
	{"null", `null`, []string{"byte 1", "object"}},
	{"cut off", `{"policy":"search"`, []string{"byte 19", "ends here"}},
	{"cut in a string", `{"policy":"sea`, []string{"byte 15", "ends here"}},
	{"cut in an escape", `{"policy":"sea\`, []string{"byte 16", "ends here"}},
	{"no colon", `{"policy" "search"}`, []string{"byte 11", "expecting ':'"}},
	{"comma at the end", `{"policy":"search",}`, []string{"byte 19", "','"}},
	{"two commas", `{"policy":"search",,"n":1}`, []string{"byte 20"}},
	{"trailing object", `{"policy":"search","key":{"ip":"1"}}{}`, []string{"byte 37", "more text"}},
	{"trailing NUL", "{\"policy\":\"search\",\"key\":{\"ip\":\"1\"}}\x00", []string{"byte 37", "more text"}},
	{"unknown member", `{"policy":"search","key":{"ip":"1"},"cost":1}`, []string{"byte 37", "cost", "takes policy, key, n"}},
	{"member in other case", `{"Policy":"search","key":{"ip":"1"}}`, []string{"Policy", "unknown"}},
	{"hostile member", `{"\u001b[2J":1}`, []string{`"\x1b[2J"`}},
	{"policy twice", `{"policy":"search","policy":"push"}`, []string{"byte 20", `"policy" is given twice`}},
	{"n twice", `{"policy":"search","n":1,"n":1}`, []string{`"n" is given twice`}},
	{"twice by an escape", `{"policy":"search","n":1,"\u006e":1}`, []string{`"n" is given twice`}},
	{"dimension twice", `{"policy":"search","key":{"ip":"1","ip":"2"}}`, []string{"byte 36", `"ip" is given twice`}},
	{"no policy", `{"key":{"ip":"1"}}`, []string{`"policy" is missing`, "GET /v1/policies"}},
	{"unknown policy", `{"policy":"serch","key":{"ip":"1"}}`, []string{`no policy "serch"; did you mean "search"?`}},
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
	{"value empty", `{"policy":"search","key":{"ip":""}}`, []string{`the value of "ip" is empty`, "send a value"}},
	{"value of 1025 bytes", `{"policy":"search","key":{"ip":"` + strings.Repeat("x", 1025) + `"}}`, []string{"1025 bytes", "1024"}},
	{"n negative", `{"policy":"search","key":{"ip":"1"},"n":-1}`, []string{"byte 41", "0 to 2251799813685247"}},
	{"n 2^51", `{"policy":"search","key":{"ip":"1"},"n":2251799813685248}`, []string{"0 to 2251799813685247"}},
	{"n 2^63", `{"policy":"search","key":{"ip":"1"},"n":9223372036854775808}`, []string{"0 to 2251799813685247"}},
	{"n of 400 digits", `{"policy":"search","key":{"ip":"1"},"n":` + strings.Repeat("9", 400) + `}`, []string{"0 to 2251799813685247"}},
	{"n a fraction", `{"policy":"search","key":{"ip":"1"},"n":1.5}`, []string{"whole number"}},
	{"n whole with a fraction", `{"policy":"search","key":{"ip":"1"},"n":1.0}`, []string{"whole number"}},
	{"n 1e308", `{"policy":"search","key":{"ip":"1"},"n":1e308}`, []string{"whole number"}},
	{"n NaN", `{"policy":"search","key":{"ip":"1"},"n":NaN}`, []string{"whole number"}},
	{"n a string", `{"policy":"search","key":{"ip":"1"},"n":"1"}`, []string{"no quotes"}},
	{"n with _", `{"policy":"search","key":{"ip":"1"},"n":1_000}`, []string{"byte 42", "expecting ',' or '}'"}},
	{"n with a zero before", `{"policy":"search","key":{"ip":"1"},"n":01}`, []string{"byte 42", "expecting ',' or '}'"}},
	{"n null", `{"policy":"search","key":{"ip":"1"},"n":null}`, []string{"whole number"}},
	{"n true", `{"policy":"search","key":{"ip":"1"},"n":true}`, []string{"whole number"}},
	{"half a surrogate pair", `{"policy":"search","key":{"ip":"\ud83d"}}`, []string{"byte 33", "surrogate"}},
	{"the other half", `{"policy":"search","key":{"ip":"\ude00x"}}`, []string{"surrogate"}},
	{"two first halves", `{"policy":"search","key":{"ip":"\ud83d\ud83d"}}`, []string{"surrogate"}},
	{"unknown escape", `{"policy":"search","key":{"ip":"\x41"}}`, []string{"escape"}},
	{"short escape", `{"policy":"search","key":{"ip":"\u00g0"}}`, []string{"byte 33", "escape"}},
	{"raw control character", "{\"policy\":\"search\",\"key\":{\"ip\":\"a\nb\"}}", []string{"byte 34", "control character"}},
	{"not UTF-8", "{\"policy\":\"search\",\"key\":{\"ip\":\"a\xff\"}}", []string{"byte 34", "invalid UTF-8"}},
	{"too long", `{"policy":"search","key":{"ip":"1"}}` + strings.Repeat(" ", 64<<10), []string{"64 KiB"}},
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

// Queries are queries that gates and resets reject.
var Queries = []struct {
	Name, Query string
	Words       []string
}{
	{"nothing", "", []string{`needs a value for "ip"`}},
	{"no =", "ip", []string{"ip has no ="}},
	{"unknown dimension", "ip=1&user=2", []string{`no dimension "user"`}},
	{"unknown alone", "user=2", []string{`no dimension "user"`}},
	{"twice", "ip=1&ip=2", []string{"ip is given twice"}},
	{"twice by a prefix", "ip=1&key.ip=2", []string{"ip is given twice"}},
	{"twice by an escape", "ip=1&%69p=2", []string{"ip is given twice"}},
	{"bad escape", "ip=%zz", []string{"%25"}},
	{"escape cut off", "ip=1%4", []string{"%25"}},
	{"bad escape in a name", "%=1", []string{"%25"}},
	{"value empty", "ip=", []string{`the value of "ip" is empty`, "send a value"}},
	{"value of 1025 bytes", "ip=" + strings.Repeat("x", 1025), []string{"1025 bytes"}},
}

// Gates are queries that only gates reject.
var Gates = []struct {
	Name, Query string
	Words       []string
}{
	{"n 0", "ip=1&n=0", []string{"n must be a whole number, 1 to", "/v1/peek"}},
	{"n negative", "ip=1&n=-1", []string{"n must be a whole number"}},
	{"n empty", "ip=1&n=", []string{"n must be a whole number"}},
	{"n 2^51", "ip=1&n=2251799813685248", []string{"2251799813685247"}},
	{"n 2^63", "ip=1&n=9223372036854775808", []string{"2251799813685247"}},
	{"n 1e3", "ip=1&n=1e3", []string{"1e3"}},
	{"n 1_000", "ip=1&n=1_000", []string{"1_000"}},
	{"n +1", "ip=1&n=%2B1", []string{"+1"}},
	{"n 01", "ip=1&n=01", []string{"01"}},
	{"n twice", "ip=1&n=1&n=2", []string{"n is given twice"}},
	{"deny 500", "ip=1&deny=500", []string{"deny must be 403 or 429, not 500"}},
	{"deny empty", "ip=1&deny=", []string{"deny must be"}},
	{"deny twice", "ip=1&deny=403&deny=429", []string{"deny is given twice"}},
}
