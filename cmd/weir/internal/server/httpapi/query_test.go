package httpapi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/httpapitest"
)

// FuzzQuery compares each accepted query with the reading of net/url.
func FuzzQuery(f *testing.F) {
	for _, c := range httpapitest.Queries {
		f.Add(c.Query)
	}
	for _, c := range httpapitest.Gates {
		f.Add(c.Query)
	}
	f.Add("ip=192.0.2.1&n=2&deny=403")
	f.Add("&&key.ip=%00%ff+x&")
	f.Add("ip=a;b=c")
	f.Fuzz(func(t *testing.T, raw string) {
		var got query
		if strings.Contains(raw, ";") || got.parse(raw, gateSettings) != nil {
			return // net/url rejects a semicolon, which may be a separator; here it is a character
		}
		want, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("%q: accepted, but net/url returns %v", raw, err)
		}
		if len(want) != len(got.key)+len(got.settings) {
			t.Errorf("%q: read as %+v, want %v", raw, got, want)
		}
		for _, p := range got.key {
			if want.Get(p.Name) != p.Value && want.Get(keyPrefix+p.Name) != p.Value {
				t.Errorf("%q: %s read as %q, want %v", raw, p.Name, p.Value, want)
			}
		}
	})
}
