package envoyconf

import (
	"regexp"
	"strings"
	"testing"
)

func parse(t testing.TB, src string) *Config {
	t.Helper()
	config, err := Parse("limits.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return config
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
