package envoyconf

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

func parse(t testing.TB, src string) *Config {
	t.Helper()
	return must.Get(Parse("limits.yaml", []byte(src)))(t)
}

// The descriptors of a level are matched in this order.
func TestMatchPrecedence(t *testing.T) {
	c := parse(t, `
domain: d
descriptors:
  - {key: k, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: k, value: "a*", rate_limit: {unit: second, requests_per_unit: 2}}
  - {key: k, value: "ab*", rate_limit: {unit: second, requests_per_unit: 3}}
  - {key: k, value: "abc", rate_limit: {unit: second, requests_per_unit: 4}}
  - {key: k, value: "*z", rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: all, value: "*", rate_limit: {unit: second, requests_per_unit: 6}}
  - {key: all, rate_limit: {unit: second, requests_per_unit: 7}}
  - key: dead
    value: end
    descriptors: [{key: sub, value: one, rate_limit: {unit: second, requests_per_unit: 8}}]
  - key: dead
    descriptors: [{key: sub, rate_limit: {unit: second, requests_per_unit: 9}}]
  - {key: x, value: y, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: tenant-*, rate_limit: {unit: second, requests_per_unit: 11}}
`)
	for _, each := range []struct {
		descriptor string
		requests   uint32 // 0 = no rule
	}{
		{"k=abc", 4},   // the exact value, even after wildcards
		{"k=abcd", 2},  // the first wildcard of the file, not the longest
		{"k=xyz", 5},   // a * in front
		{"k=az", 2},    // again the first
		{"k=other", 1}, // the key alone, even if it is first
		{"k=", 1},      // no value
		{"all=", 6},    // a * matches the empty value
		{"all=x", 6},   // and takes precedence over the key alone
		{"dead=end,sub=one", 8},
		{"dead=end,sub=two", 0}, // a match at a level is final
		{"dead=other,sub=two", 9},
		{"x_y=", 0}, // keys do not collide with joined keys and values
		{"x=y", 10},
		{"tenant-7=x", 11},
		{"tenant=x", 0},
	} {
		got := uint32(0)
		if r := c.Domain("d").Match(entries(each.descriptor)); r != nil {
			got = r.Requests
		}
		if got != each.requests {
			t.Errorf("%s: got rule %d, want %d", each.descriptor, got, each.requests)
		}
	}
	if r := c.Domain("d").Match(nil); r != nil {
		t.Errorf("no entries: got %+v", r)
	}
}

// A pattern matches what the regular expression does.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a*b*c", "axbxc"}, {"*", ""}, {"a*a", "a"}, {"**", "x"}, {"ab*ba", "aba"}, {"*aa*", "aa"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if !strings.Contains(text, "*") || len(text)+len(value) > 200 {
			return
		}
		var parts []string
		for _, part := range strings.Split(text, "*") {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		re, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil || !utf8Both(text, value) {
			return
		}
		if got, want := newPattern(text).matches(value), re.MatchString(value); got != want {
			t.Errorf("%q matches %q: %t, want %t", text, value, got, want)
		}
	})
}

func utf8Both(a, b string) bool {
	return strings.ToValidUTF8(a, "") == a && strings.ToValidUTF8(b, "") == b
}
