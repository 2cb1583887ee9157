//go:build linux

package integrations

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

var envoyProxy = proxy{name: "envoy", grpc: true, start: func(s *stand) {
	s.run(s.proxy.find(s.t), "-c", filepath.Join(s.dir, "envoy.yaml"), "--disable-hot-restart", "--concurrency", "1", "--log-level", "error")
}}

// eachEnvoy runs a test with the real Envoy and both words of --when-down.
func eachEnvoy(t *testing.T, change func(*Options), test func(t *testing.T, s *stand)) {
	t.Parallel()
	for name, allow := range map[string]bool{"allow": true, "deny": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newStand(t, envoyProxy, func(o *Options) { o.Allow = allow; change(o) }))
		})
	}
}

// wantEnvoy checks an answer of Envoy: its status, and the limit and the rest in its header
// fields, both "" where weir is not asked or has no answer.
func (s *stand) wantEnvoy(what string, r reply, status int, limit, left string) {
	s.t.Helper()
	s.want(what, r, status)
	gotLimit, _, _ := strings.Cut(r.header.Get("X-Ratelimit-Limit"), ",")
	reset, err := strconv.Atoi(r.header.Get("X-Ratelimit-Reset"))
	inTime := err == nil && reset >= 1 && reset <= 3600
	if left := r.header.Get("X-Ratelimit-Remaining"); gotLimit != limit || inTime != (limit != "") {
		s.t.Errorf("%s: x-ratelimit-limit %q, -remaining %q, -reset %d", what, gotLimit, left, reset)
	}
	if got := r.header.Get("X-Ratelimit-Remaining"); got != left {
		s.t.Errorf("%s: %q remain, want %q", what, got, left)
	}
	if fromApp := strings.HasPrefix(r.body, "app: "); fromApp != (status == 200 || strings.HasPrefix(what, "the application's own")) {
		s.t.Errorf("%s: the body is %q", what, r.body)
	}
	if limited := r.header.Get("X-Envoy-Ratelimited") != ""; limited != (status == 429) {
		s.t.Errorf("%s: %v", what, r.header)
	}
}

// TestEnvoy limits by a field, whose policy has plans. Then weir hangs, is killed and comes back.
func TestEnvoy(t *testing.T) {
	planned := func(o *Options) { o.Policy, o.OfPolicy, o.PlanBy, o.PlanHeader = "planned", true, "plan", "X-Plan" }
	eachEnvoy(t, planned, func(t *testing.T, s *stand) {
		for i := range 3 {
			s.wantEnvoy("request "+strconv.Itoa(i+1), s.get("/", "X-User", "ann"), 200, "3", strconv.Itoa(2-i))
		}
		before := s.app.requests()
		s.wantEnvoy("the fourth", s.get("/", "X-User", "ann"), 429, "3", "0")
		s.wantEnvoy("one with a body", s.do("POST", "/", "body", "X-User", "ann"), 429, "3", "0")
		s.wantEnvoy("nobody", s.get("/"), 400, "", "")
		if asked := s.app.requests() - before; asked != 0 {
			t.Errorf("the application saw %d requests that were denied", asked)
		}
		s.wantEnvoy("a preflight", s.do("OPTIONS", "/", "", preflight...), 200, "", "")
		s.wantEnvoy("no preflight", s.do("OPTIONS", "/", "", append(preflight[:2:2], "X-User", "ann")...), 429, "3", "0")
		s.wantEnvoy("another plan", s.get("/", "X-User", "ann", "X-Plan", "pro"), 200, "9", "5")
		s.wantEnvoy("an unknown plan", s.get("/", "X-User", "ann", "X-Plan", "golden"), 429, "3", "0")
		for _, status := range []int{401, 403, 500, 503} {
			r := s.get("/status/"+strconv.Itoa(status), "X-User", strconv.Itoa(status))
			s.wantEnvoy("the application's own", r, status, "3", "2")
		}

		unanswered := 503
		if s.options.Allow {
			unanswered = 200
		}
		s.killWeir()
		s.wantEnvoy("while weir is gone", s.get("/", "X-User", "bob"), unanswered, "", "")
		s.wantEnvoy("nobody, while weir is gone", s.get("/"), 400, "", "")
		s.startWeir()
		must.Await(t, "weir decides again", func() bool { return s.get("/", "X-User", "carl").header.Get("X-Ratelimit-Limit") != "" })
	})
}

// TestEnvoyTimeout: a weir that hangs is one that is down, after the timeout of the snippet.
func TestEnvoyTimeout(t *testing.T) {
	shortly := func(o *Options) { o.OfPolicy, o.Timeout = true, "" }
	eachEnvoy(t, shortly, func(t *testing.T, s *stand) {
		decides := func() bool { return s.get("/", "X-User", "ann").header.Get("X-Ratelimit-Limit") != "" }
		must.Await(t, "weir decides", decides)
		s.freezeWeir()
		if s.options.Allow {
			s.wantEnvoy("while weir hangs", s.get("/", "X-User", "bob"), 200, "", "")
		} else {
			s.wantEnvoy("while weir hangs", s.get("/", "X-User", "bob"), 503, "", "")
		}
		s.weir.Process.Signal(syscall.SIGCONT)
		must.Await(t, "weir decides again", decides)
	})
}

// TestEnvoyByAddress limits by the client's address: with the rules that the snippet has for weir,
// and with a policy.
func TestEnvoyByAddress(t *testing.T) {
	byAddress := func(o *Options) {
		o.Policy, o.Dimension, o.Header = "edge", "", ""
		if !o.Allow {
			o.Policy, o.OfPolicy = "masked", true
		}
	}
	eachEnvoy(t, byAddress, func(t *testing.T, s *stand) {
		for i := range 5 {
			s.wantEnvoy("request "+strconv.Itoa(i+1), s.get("/"), 200, "5", strconv.Itoa(4-i))
		}
		for _, forged := range []string{"X-Other", "X-Forwarded-For", "X-Real-Ip", "X-Envoy-External-Address", "Forwarded"} {
			s.wantEnvoy("with a forged "+forged, s.get("/", forged, "192.0.2.1"), 429, "5", "0")
		}
	})
}

// TestEnvoyCountedKeyIsPassed: the application gets exactly the counted value, over HTTP/1.1 and
// HTTP/2, or the request is rejected.
func TestEnvoyCountedKeyIsPassed(t *testing.T) {
	t.Parallel()
	s := newStand(t, envoyProxy, func(o *Options) { o.OfPolicy, o.Allow = true, true })
	for i, c := range keyCases {
		s.try(i, c, s.sendLines)
	}
	s.client.Transport = http2Transport(false)
	t.Cleanup(s.client.CloseIdleConnections)
	for i, c := range keyCases {
		if c.lines == "" {
			s.try(len(keyCases)+i, c, s.sendFields)
		}
	}
}
