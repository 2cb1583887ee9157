//go:build linux

package integrations

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// proxy is a program with a snippet.
type proxy struct {
	name  string
	start func(s *stand)
	edit  func(t *testing.T, text string) string // changes of a user in the snippet's files; nil = none
	serve func(s *stand)                         // starts weir, once its options are set; nil = startWeir

	global string // further global options of a Caddyfile
	grpc   bool   // calls weir over gRPC
}

// find declares the program and returns its path.
func (p proxy) find(t *testing.T) string {
	t.Helper()
	if p.name == "envoy" {
		return needs.Envoy(t)
	}
	return needs.Program(t, p.name)
}

var proxies = []proxy{
	{name: "nginx", start: startNginx},
	{name: "haproxy", start: func(s *stand) { s.run("haproxy", "-db", "-f", filepath.Join(s.dir, "haproxy.cfg")) }},
	{name: "caddy", start: startCaddy},
}

func startCaddy(s *stand) {
	path := filepath.Join(s.dir, "Caddyfile")
	snippet, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("Caddyfile", "{\n\tadmin off\n"+s.proxy.global+"}\n"+string(snippet))
	s.run("caddy", "run", "--adapter", "caddyfile", "--config", path)
}

func startNginx(s *stand) {
	s.write("weir-gate-secret.conf", "proxy_set_header Weir-Gate-Secret \""+thisSecret+"\";\n")
	main := "daemon off; pid nginx.pid; error_log stderr; worker_processes 1;\n"
	if os.Getuid() == 0 {
		main += "user root;\n" // can read the test's directory
	}
	main += "events {}\nhttp {\n access_log off;\n"
	main += " types { text/html html; application/javascript js; image/jpeg jpg; }\n default_type application/octet-stream;\n" // as mime.types
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += kind + "_temp_path tmp;\n"
	}
	s.write("main.conf", main+"include weir.conf;\n}\n")
	s.run("nginx", "-p", s.dir, "-e", "stderr", "-c", "main.conf")
}

// each runs a test for every proxy, with both words of --when-down, beside other tests.
func each(t *testing.T, change func(*Options), test func(t *testing.T, s *stand)) {
	t.Parallel()
	for _, p := range proxies {
		for name, allow := range map[string]bool{"allow": true, "deny": false} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, newStand(t, p, func(o *Options) { o.Allow = allow; change(o) }))
			})
		}
	}
}

func (s *stand) want(what string, r reply, status int) {
	s.t.Helper()
	if r.status != status {
		s.t.Errorf("%s: status %d, %q; want %d", what, r.status, r.body, status)
	}
}

// wantGranted checks an answer of the application to a request that weir allowed.
func (s *stand) wantGranted(what string, r reply, left int) {
	s.t.Helper()
	s.want(what, r, 200)
	if !strings.HasPrefix(r.body, "app: ") {
		s.t.Errorf("%s: the body is not the application's: %q", what, r.body)
	}
	s.wantFields(what, r, left)
}

// wantFields checks the fields of an answer: left of 3 an hour.
func (s *stand) wantFields(what string, r reply, left int) {
	s.t.Helper()
	if limit := r.header.Get("RateLimit"); !strings.Contains(limit, ";r="+strconv.Itoa(left)+";t=") || !strings.Contains(r.header.Get("RateLimit-Policy"), ";q=3;w=3600") {
		s.t.Errorf("%s: RateLimit %q, RateLimit-Policy %q; want %d of 3 left", what, limit, r.header.Get("RateLimit-Policy"), left)
	}
}

// wantDenied checks the answer to a request that weir denied.
func (s *stand) wantDenied(what string, r reply) {
	s.t.Helper()
	s.want(what, r, 429)
	if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 3600 {
		s.t.Errorf("%s: Retry-After %q, want 1 to 3600 seconds", what, r.header.Get("Retry-After"))
	}
	if !strings.Contains(r.header.Get("RateLimit"), ";r=0;t=") || !strings.Contains(r.header.Get("RateLimit-Policy"), ";q=3;w=3600") ||
		len(r.header.Values("RateLimit")) != 1 || len(r.header.Values("Cache-Control")) != 1 ||
		!strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json") || r.header.Get("Cache-Control") != "no-store" ||
		!strings.Contains(r.body, `"status":429`) || !strings.Contains(r.body, "quota-exceeded") {
		s.t.Errorf("%s: %v\n%s", what, r.header, r.body)
	}
}

// A key from a header: three requests pass, the fourth is denied, other keys pass.
func TestLimits(t *testing.T) {
	each(t, func(*Options) {}, func(t *testing.T, s *stand) {
		for i, host := range []string{"", "shop.example.com", "localhost:80"} {
			s.wantGranted("request "+strconv.Itoa(i+1), s.get("/", "X-User", "ann", "Host", host), 2-i)
		}
		before := s.app.requests()
		s.wantDenied("the fourth", s.get("/", "X-User", "ann"))
		s.wantDenied("one with a body", s.do("POST", "/", "body", "X-User", "ann"))
		if got := s.app.requests(); got != before {
			t.Errorf("the application saw %d requests that were denied", got-before)
		}
		s.wantGranted("another user", s.get("/", "X-User", "bob&n=3&user=ann%20+"), 2)

		s.want("a preflight, which lacks the key", s.do("OPTIONS", "/", "", preflight...), 200)
		s.want("nobody", s.get("/"), 400)
		s.want("a name that is too long", s.get("/", "X-User", strings.Repeat("x", 1100)), 400)
		s.want("nobody, with a forged key", s.get("/", "Weir-Key", "carl"), 400)

		for _, status := range []int{401, 403, 404, 429, 500, 502, 503, 504} {
			before := s.app.requests()
			r := s.get("/status/"+strconv.Itoa(status), "X-User", strconv.Itoa(status))
			s.want("the application's own", r, status)
			if !strings.HasPrefix(r.body, "app: GET") || s.app.requests() != before+1 {
				t.Errorf("the application's own %d: body %q, asked %d times", status, r.body, s.app.requests()-before)
			}
		}
		r := s.do("PUT", "/big", strings.Repeat("x", 1<<20), "X-User", "dora", "Authorization", "Bearer of the application")
		if r.body != "app: PUT, 1048576 bytes" {
			t.Errorf("a request of 1 MiB: %d, %q", r.status, r.body)
		}
		last := s.app.seen[len(s.app.seen)-1]
		if last.Header.Get("Authorization") == "" || last.Header.Get("Weir-Gate-Secret") != "" {
			t.Errorf("the application saw %v, want the client's token and nothing of weir's", last.Header)
		}
	})
}

// TestPlans: the field of a gateway chooses the plan. A request without it has none.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, p, func(o *Options) { o.Policy, o.PlanBy, o.PlanHeader = "planned", "plan", "X-Plan" })
			for _, c := range []struct{ plan, limit string }{{"pro", "9"}, {"", "3"}, {"other", "3"}, {"pro", "9"}} {
				fields := []string{"X-User", "ann", "X-Plan", c.plan}
				if c.plan == "" {
					fields = fields[:2]
				}
				r := s.get("/", fields...)
				if field := r.header.Get("RateLimit-Policy"); field != `"planned";q=`+c.limit+`;w=3600` {
					t.Errorf("plan %q: %d, RateLimit-Policy %s; want a limit of %s", c.plan, r.status, field, c.limit)
				}
			}
			s.want("the fifth, without a plan", s.get("/", "X-User", "ann"), 429)
			s.want("the fifth, of the plan", s.get("/", "X-User", "ann", "X-Plan", "pro"), 200)
		})
	}
}

// TestGrantWithoutFields: an answer of weir without RateLimit, as of a policy in shadow mode,
// lets the request pass, and the client gets no such field.
func TestGrantWithoutFields(t *testing.T) {
	each(t, func(o *Options) { o.Policy = "observed" }, func(t *testing.T, s *stand) {
		r := s.get("/", "X-User", "ann")
		s.want("a request", r, 200)
		for name := range r.header {
			if strings.HasPrefix(strings.ToLower(name), "ratelimit") {
				t.Errorf("%s: %q, want no such field", name, r.header[name])
			}
		}
		if !strings.HasPrefix(r.body, "app: ") {
			t.Errorf("the body is not the application's: %q", r.body)
		}
	})
}

// A key from the client's address, which no header can change.
func TestLimitsByAddress(t *testing.T) {
	byAddress := func(o *Options) { o.Policy, o.Dimension, o.Header = "addresses", "ip", "" }
	each(t, byAddress, func(t *testing.T, s *stand) {
		for i := range 3 {
			s.wantGranted("request "+strconv.Itoa(i+1), s.get("/"), 2-i)
		}
		s.wantDenied("the fourth", s.get("/"))
		for _, forged := range []string{"X-Forwarded-For", "X-Real-IP", "Weir-Key", "Forwarded"} {
			s.wantDenied("with a forged "+forged, s.get("/", forged, "192.0.2.1"))
		}
		s.wantDenied("with a forged query", s.get("/?n=1&ip=192.0.2.1"))
	})
}

// decides waits until weir answers the proxy again, and checks its decisions.
func (s *stand) decides(when, user string) {
	s.t.Helper()
	must.Await(s.t, when+": weir decides", func() bool { return s.get("/", "X-User", user).header.Get("RateLimit") != "" })
}

// The answers while weir hangs, after it was killed, and after a restart, within the
// timeouts of the snippet.
func TestWithoutWeir(t *testing.T) {
	each(t, func(o *Options) { o.Timeout = "" }, func(t *testing.T, s *stand) {
		unanswered := 503
		if s.options.Allow {
			unanswered = 200
		}
		s.decides("at first", "ann")

		s.freezeWeir()
		for range 3 {
			s.want("while weir hangs", s.get("/", "X-User", "bob"), unanswered)
		}
		s.weir.Process.Signal(syscall.SIGCONT)
		s.decides("when it goes on", "ann")

		s.killWeir()
		for range 3 {
			before := s.app.requests()
			s.want("while weir is gone", s.do("POST", "/", "a body", "X-User", "ann"), unanswered)
			if got := s.app.requests() - before; got > 1 || s.options.Allow && got == 0 {
				t.Errorf("while weir is gone the application was asked %d times", got)
			}
		}
		s.startWeir()
		s.decides("when it is back", "carl")

		s.app.Close()
		if r := s.get("/", "X-User", "dora"); r.status != 502 && r.status != 503 {
			t.Errorf("while the application is gone: %d %s", r.status, r.body)
		}
	})
}

// Answers of weir other than decisions are errors of the configuration or the store.
// They let no request pass.
func TestWeirThatDoesNotDecide(t *testing.T) {
	each(t, func(o *Options) { o.Policy = "nothing" }, func(t *testing.T, s *stand) {
		r := s.get("/", "X-User", "ann")
		s.want("a policy that is not there", r, 503)
		if s.app.requests() != 0 || strings.Contains(r.body, "nothing") {
			t.Errorf("%q, and the application was asked %d times", r.body, s.app.requests())
		}
	})
}

// A secret, over a unix socket: each of two secrets is accepted, another is not.
func TestSecretOverSocket(t *testing.T) {
	overSocket := func(o *Options) { o.Secret, o.Weir = true, "unix:"+filepath.Join(o.Dir, "weir.sock") }
	each(t, overSocket, func(t *testing.T, s *stand) {
		s.wantGranted("with the secret", s.get("/", "X-User", "ann"), 2)
		s.killWeir()
		s.secrets = otherSecret + "\n" + thisSecret
		s.startWeir() // over the socket that the other left behind
		s.wantGranted("with one of two", s.get("/", "X-User", "ann"), 2)
		s.killWeir()
		s.secrets = otherSecret
		s.startWeir()
		r := s.get("/", "X-User", "ann", "Weir-Gate-Secret", otherSecret)
		s.want("with another, though the client knows it", r, 503)
		if r.header.Get("Www-Authenticate") != "" {
			t.Errorf("the client is asked to log in to weir: %v", r.header)
		}
	})
}

// replaced returns an edit that replaces text of a snippet, as docs/proxies.md instructs users.
func replaced(old, new string) func(*testing.T, string) string {
	return func(t *testing.T, text string) string {
		t.Helper()
		return replaceOnce(t, text, old, new)
	}
}

// replaceOnce replaces text that occurs exactly once in a file of a snippet, or belongs to another
// of its files.
func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) > 1 {
		t.Fatalf("the snippet holds %q more than once", old)
	}
	return strings.Replace(text, old, new, 1)
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
			for i := range s.app.requests() {
				got := s.app.asked(i).Header.Values("X-Forwarded-For")
				if len(got) != 1 || got[0] != "198.51.100.7" {
					t.Errorf("the application saw X-Forwarded-For %q, want 198.51.100.7", got)
				}
			}
			s.wantDenied("the fourth", s.get("/", "X-Forwarded-For", "192.0.2.3, 198.51.100.7"))
			s.wantGranted("another client", s.get("/", "X-Forwarded-For", "198.51.100.7, 198.51.100.8"), 2)
		})
	}
}

// With a key from a header field, the application behind HAProxy gets the address that the other
// proxy added.
func TestForwardedAddressBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	p := proxies[1]
	p.edit = replaced("set-header X-Forwarded-For %[src] ",
		"set-header X-Forwarded-For %[req.hdr_ip(X-Forwarded-For,-1)] ")
	s := newStand(t, p, func(*Options) {})
	s.get("/", "X-User", "ann", "X-Forwarded-For", "192.0.2.1, 198.51.100.7")
	if got := s.app.asked(0).Header.Get("X-Forwarded-For"); got != "198.51.100.7" {
		t.Errorf("the application saw X-Forwarded-For %q, want 198.51.100.7", got)
	}
}
