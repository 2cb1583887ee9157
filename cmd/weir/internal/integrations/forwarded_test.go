//go:build linux

package integrations

import (
	"strings"
	"testing"
)

// replaced replaces text that occurs exactly once in a snippet, as docs/service.md
// instructs users.
func replaced(old, new string) func(*testing.T, string) string {
	return func(t *testing.T, text string) string {
		if !strings.Contains(text, old) {
			return text // of the other files
		}
		if strings.Count(text, old) != 1 {
			t.Fatalf("the snippet holds %q more than once", old)
		}
		return strings.Replace(text, old, new, 1)
	}
}

// Behind another proxy the address that the proxy added counts, and not one that the
// client sent.
func TestBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	edits := map[string]func(*testing.T, string) string{
		"nginx": replaced("    location / {",
			"    set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;\n    location / {"),
		"haproxy": replaced("http-request set-var(txn.weir_key) src ", "http-request set-var(txn.weir_key) req.hdr_ip(X-Forwarded-For,-1) "),
	}
	for _, p := range proxies {
		if p.edit = edits[p.name]; p.edit == nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, p, func(o *Options) { o.Policy, o.Dimension, o.Header = "addresses", "ip", "" })
			for i, forged := range []string{"", "192.0.2.1, ", "203.0.113.9, 192.0.2.2, "} {
				s.wantGranted("with "+forged, s.get("/", "X-Forwarded-For", forged+"198.51.100.7"), 2-i)
			}
			s.wantDenied("the fourth", s.get("/", "X-Forwarded-For", "192.0.2.3, 198.51.100.7"))
			s.wantGranted("another client", s.get("/", "X-Forwarded-For", "198.51.100.7, 198.51.100.8"), 2)
		})
	}
}
