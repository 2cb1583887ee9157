package server

import (
	"net/http"
	"testing"
)

// with adds header fields, name and value in turns.
func with(fields ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			r.Header.Add(fields[i], fields[i+1])
		}
	}
}

func TestGateReadsHeaders(t *testing.T) {
	for _, c := range []struct {
		name, query string
		fields      []string
		ip          string // the key that is charged
	}{
		{"as it stands", "header.ip=X-User", []string{"X-User", "a&n=2+%41"}, "a&n=2+%41"},
		{"however it is spelled", "header.ip=x-uSER", []string{"X-User", "ann"}, "ann"},
		{"an address", "address.ip=X-Real-Ip", []string{"X-Real-Ip", "192.0.2.1"}, "192.0.2.1"},
		{"the last of a list", "address.ip=X-Forwarded-For", []string{"X-Forwarded-For", "nonsense, 192.0.2.1,192.0.2.2"}, "192.0.2.2"},
		{"the last of several fields", "address.ip=X-Forwarded-For", []string{"X-Forwarded-For", "192.0.2.9", "X-Forwarded-For", "192.0.2.3"}, "192.0.2.3"},
		{"IPv6, by its network", "address.ip=X-Real-Ip", []string{"X-Real-Ip", "2001:DB8::1:2:3"}, "2001:db8::/64"},
		{"IPv4 behind NAT64", "address.ip=X-Real-Ip", []string{"X-Real-Ip", "64:ff9b::192.0.2.1"}, "192.0.2.1"},
		{"IPv4 in IPv6", "address.ip=X-Real-Ip", []string{"X-Real-Ip", "::ffff:192.0.2.1"}, "192.0.2.1"},
	} {
		s, _ := newServer(t, nil)
		if r := ask(s, "GET", "/gate/search?n=2&"+c.query, "", with(c.fields...)); r.status != 204 {
			t.Errorf("%s: status %d, %s", c.name, r.status, r.body)
			continue
		}
		body := `{"policy":"search","key":{"ip":"` + c.ip + `"}}`
		if got := decide(t, s, "/v1/peek", body); got.Remaining != 0 {
			t.Errorf("%s: %d left for %s, want the gate's count", c.name, got.Remaining, c.ip)
		}
	}
}

func TestGateRefusesHeaders(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, c := range []struct {
		name, query string
		fields      []string
		word        string
	}{
		{"missing", "header.ip=X-User", nil, "no header field X-User"},
		{"empty", "header.ip=X-User", []string{"X-User", ""}, "no header field X-User"},
		{"twice", "header.ip=X-User", []string{"X-User", "a", "X-User", "b"}, "more than once"},
		{"no name", "header.ip=", []string{"X-User", "a"}, "no header field"},
		{"no address", "address.ip=X-User", []string{"X-User", "ann"}, "does not end with an IP address"},
		{"an empty last address", "address.ip=X-User", []string{"X-User", "192.0.2.1,"}, "does not end with an IP address"},
		{"and by the query", "ip=1&header.ip=X-User", []string{"X-User", "a"}, "ip is given twice"},
		{"no dimension", "ip=1&header.=X-User", []string{"X-User", "a"}, "no dimension"},
		{"elsewhere", "ip=1", nil, ""},
	} {
		r := ask(s, "GET", "/gate/search?"+c.query, "", with(c.fields...))
		if c.word == "" {
			if r.status != 204 {
				t.Errorf("%s: status %d", c.name, r.status)
			}
			continue
		}
		wantProblem(t, c.name, r, 400, c.word)
	}
	// The key of a reset is in its query, never in a header that any client can set.
	wantProblem(t, "reset", ask(s, "DELETE", "/v1/keys/search?header.ip=X-User", "", with("X-User", "a")), 400, `no dimension "header.ip"`)
}
