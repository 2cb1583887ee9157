//go:build linux

package integrations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// webExamples are the programs of examples/ in other languages. command prepares the copy of
// a program in dir and returns the command that starts it. The test appends route to the copy:
// it counts by the user in the JSON of ?key=, as an application counts by a login.
var webExamples = []struct {
	name    string
	file    string
	route   string
	command func(t *testing.T, dir string) []string
}{
	{"node-express", "app.js", `
const byLogin = limit("demo", (req) => ({ user: JSON.parse(req.query.key).user }));
app.get("/login", byLogin, (req, res) => res.send("Hello.\n"));
`, nodeCommand},
	{"python-flask", "app.py", `

@app.get("/login")
@limited("demo", lambda: {"user": __import__("json").loads(request.args["key"]).get("user")})
def login():
    return "Hello.\n"
`, pythonCommand},
}

// nodeCommand installs the packages of package-lock.json.
func nodeCommand(t *testing.T, dir string) []string {
	return []string{needs.Program(t, "node"), filepath.Join(needs.Modules(t, dir), "app.js")}
}

// pythonCommand finds a Python with Flask: that of the system, or else the first in PATH.
func pythonCommand(t *testing.T, dir string) []string {
	needs.Program(t, "python3")
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import flask").Run() == nil {
			return []string{python, "-m", "flask", "--app", filepath.Join(dir, "app.py"), "run"}
		}
	}
	needs.Have(t, "Flask", false, "run `make tools`")
	return nil
}

// TestWebExamples runs the programs with their real frameworks and a real weir.
func TestWebExamples(t *testing.T) {
	for _, e := range webExamples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join("../../../..", "examples", e.name))))
			f := must.Get(os.OpenFile(filepath.Join(dir, e.file), os.O_APPEND|os.O_WRONLY, 0))(t)
			must.Get(f.WriteString(e.route))(t)
			must.Do(t, f.Close())
			command := e.command(t, dir)
			for name, test := range webTests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(newWebStand(t, command))
				})
			}
		})
	}
}

// newWebStand returns a stand in which command starts both the proxy and the application.
// Weir and the command are not started.
func newWebStand(t *testing.T, command []string) *stand {
	t.Helper()
	s := bareStand(t)
	s.serve = []string{"--gate-id-header", "X-Request-Id"}
	_, port, _ := strings.Cut(s.options.Listen, ":")
	s.env = []string{"PORT=" + port, "FLASK_RUN_PORT=" + port, "WEIR=" + s.options.Weir}
	s.command = command
	s.proxy.start = func(s *stand) {
		s.run(command[0], command[1:]...)
		s.await("tcp", s.options.Listen)
	}
	return s
}

// start starts weir and the program, with further environment.
func (s *stand) start(env ...string) {
	s.t.Helper()
	s.env = append(s.env, env...)
	s.startWeir()
	s.proxy.start(s)
}

// patient is a timeout for tests in which every answer comes: a busy machine is slow.
const patient = "WEIR_TIMEOUT_MS=20000"

var webTests = map[string]func(s *stand){
	"limit":               limitsWeb,
	"lost answer":         chargesLostAnswerOnce,
	"names":               countsNamesOnce,
	"without weir, deny":  func(s *stand) { decidesWithoutWeir(s, "deny", 503) },
	"without weir, allow": func(s *stand) { decidesWithoutWeir(s, "allow", 200) },
	"wrong secret":        deniesWithWrongSecret,
	"missing login":       rejectsMissingLogin,
	"long name":           answersBadRequest,
	"wrong settings":      rejectsWrongSettings,
	"untrusted proxy":     warnsOfProxy,
	"wrong port":          func(s *stand) { logsCause(s, free(s.t), "refused") },
	"no weir":             rejectsOtherServer,
	"wrong host":          func(s *stand) { logsCause(s, "nosuch.invalid:7070", "not") },
}

// limitsWeb: three requests pass. The fourth is denied and has the exact wait. No header
// field of the client changes the address or the id.
func limitsWeb(s *stand) {
	s.start(patient)
	for i := range 3 {
		r := s.get("/", "X-Request-Id", "an id of the client")
		s.wantHello("request "+strconv.Itoa(i+1), r)
		s.wantFields("request "+strconv.Itoa(i+1), r, 2-i)
	}
	before := s.peek("search", "ip", "127.0.0.1")
	r := s.get("/")
	after := s.peek("search", "ip", "127.0.0.1")
	s.wantDenied("the fourth", r)
	var problem struct {
		RetryAfter int64 `json:"retry_after_ms"`
	}
	must.Do(s.t, json.Unmarshal([]byte(r.body), &problem))
	if ms := problem.RetryAfter; ms > before.RetryAfter || ms < after.RetryAfter {
		s.t.Errorf("the wait is %d ms; before it was %d, afterwards %d", ms, before.RetryAfter, after.RetryAfter)
	}
	seconds := strconv.FormatInt((problem.RetryAfter+999)/1000, 10)
	if got, limit := r.header.Get("Retry-After"), r.header.Get("RateLimit"); got != seconds || limit != `"search";r=0;t=`+seconds {
		s.t.Errorf("Retry-After %q, RateLimit %q; want %s seconds", got, limit, seconds)
	}
	for _, forged := range []string{"X-Forwarded-For", "X-Real-Ip", "Client-Address", "X-Request-Id"} {
		s.wantDenied("with a forged "+forged, s.get("/", forged, "192.0.2.1"))
	}
}

// chargesLostAnswerOnce: a relay drops the first answer of weir. The program retries with
// the same id, and the request is charged once.
func chargesLostAnswerOnce(s *stand) {
	var mu sync.Mutex
	var ids []string // of the calls of the gate
	relay := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: s.options.Weir}) },
		ModifyResponse: func(res *http.Response) error {
			mu.Lock()
			defer mu.Unlock()
			if ids = append(ids, res.Request.Header.Get("X-Request-Id")); len(ids) == 1 {
				return errors.New("dropped")
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	s.t.Cleanup(relay.Close)
	s.start(patient, "WEIR="+relay.Listener.Addr().String())
	for i := range 2 {
		s.wantHello("request "+strconv.Itoa(i+1), s.get("/"))
		if used := s.peek("search", "ip", "127.0.0.1").used(); used != int64(i+1) {
			s.t.Errorf("after request %d weir has charged %d", i+1, used)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 3 || ids[0] == "" || ids[0] != ids[1] || ids[1] == ids[2] {
		s.t.Errorf("the ids are %q, want the first twice and then another", ids)
	}
}

// countsNamesOnce: a name in any script has one history, that of the same text in JSON. While weir
// runs, WEIR_DOWN=allow opens no door for a name that a header field cannot hold.
func countsNamesOnce(s *stand) {
	s.start(patient, "WEIR_DOWN=allow")
	for _, name := range []string{"ann", "Jürgen", "张三", "€", "a b&c=d+e%41?#"} {
		for i := range 4 {
			r := s.get("/users/" + url.PathEscape(name))
			if used := s.peek("demo", "user", name).used(); used != int64(min(i+1, 3)) {
				s.t.Errorf("%s: %d requests are charged after %d", name, used, i+1)
			}
			if want := map[bool]int{true: 200, false: 429}[i < 3]; r.status != want {
				s.t.Errorf("%s: request %d has status %d, want %d: %s", name, i+1, r.status, want, r.body)
			}
		}
	}
}

// decidesWithoutWeir: while weir hangs, and while it is gone, status answers requests. The
// timeout is that of the program.
func decidesWithoutWeir(s *stand, down string, status int) {
	s.start("WEIR_DOWN=" + down)
	s.decides("at first", "")
	s.freezeWeir()
	s.want("while weir hangs", s.get("/"), status)
	s.weir.Process.Signal(syscall.SIGCONT)
	s.decides("when it goes on", "")
	s.killWeir()
	s.want("while weir is gone", s.get("/"), status)
	s.startWeir()
	s.decides("when it is back", "")
}

// deniesWithWrongSecret: an error of weir is no outage, so it lets no request pass.
func deniesWithWrongSecret(s *stand) {
	s.options.Secret = true
	s.start(patient, "WEIR_DOWN=allow")
	s.want("a request", s.get("/"), 503)
}

// rejectsMissingLogin: a request without a user is an error of the application. It has no history,
// not even one that all such requests share, and passes in no outage.
func rejectsMissingLogin(s *stand) {
	s.start(patient, "WEIR_DOWN=allow")
	login := func(key string) reply { return s.get("/login?key=" + url.QueryEscape(key)) }
	s.wantHello("a login", login(`{"user":"ann"}`))
	wrong := []string{
		`{}`, `{"user":null}`, `{"user":""}`, `{"user":{}}`, `{"user":["ann"]}`,
		`{"user":7}`, `{"user":true}`,
	}
	for _, key := range wrong {
		s.want(key, login(key), 500)
	}
	for _, user := range []string{
		"undefined", "null", "None", "[object Object]", "{}", "ann,", "7", "true", "True",
	} {
		if used := s.peek("demo", "user", user).used(); used != 0 {
			s.t.Errorf("%d requests are charged to %q", used, user)
		}
	}
	if used := s.peek("demo", "user", "ann").used(); used != 1 {
		s.t.Errorf("%d requests are charged to ann, want 1", used)
	}
	s.killWeir()
	s.want("without weir", login(`{}`), 500)
}

// answersBadRequest: a name above the bound of weir is a mistake of the client.
func answersBadRequest(s *stand) {
	s.start(patient, "WEIR_DOWN=allow")
	s.want("a long name", s.get("/users/"+strings.Repeat("n", 1100)), 400)
	s.want("a name longer than a header", s.get("/users/"+strings.Repeat("!", 12_000)), 503)
}

// rejectsWrongSettings: a program with a wrong setting does not start. Its last words name the
// setting and the right form.
func rejectsWrongSettings(s *stand) {
	for setting, form := range map[string]string{
		"WEIR=127.0.0.1:17070/":        "host:port",
		"WEIR=http://127.0.0.1:17070":  "host:port",
		"WEIR=":                        "host:port",
		"WEIR=127.0.0.1:17070\n":       "host:port",
		"WEIR_TIMEOUT_MS=250ms":        "milliseconds",
		"WEIR_TIMEOUT_MS=0":            "milliseconds",
		"WEIR_TIMEOUT_MS=2.5":          "milliseconds",
		"WEIR_TIMEOUT_MS=":             "milliseconds",
		"WEIR_TIMEOUT_MS=100000000000": "milliseconds",
		"WEIR_DOWN=Allow":              "deny or allow",
	} {
		ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
		cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
		cmd.Env = slices.Concat(os.Environ(), s.env, []string{"WEIR_DOWN=allow", setting})
		out, err := cmd.CombinedOutput()
		timedOut := ctx.Err() != nil
		cancel()
		name, _, _ := strings.Cut(setting, "=")
		sentence := name + " must be " + form
		if err == nil || timedOut || !strings.Contains(string(out), sentence) {
			s.t.Errorf("%q: %v, want the end with %q\n%s", setting, err, sentence, out)
		}
	}
}

// warnsOfProxy: the program trusts no proxy, so all clients behind one share a history. Weir
// warns once.
func warnsOfProxy(s *stand) {
	s.start(patient)
	for range 2 {
		s.wantHello("from a proxy", s.get("/", "X-Forwarded-For", "203.0.113.9"))
	}
	if got := strings.Count(s.weir.Output(), "counts ip by a private address"); got != 1 {
		s.t.Errorf("weir warns %d times of the shared history, want once:\n%s", got, s.weir.Output())
	}
}

// rejectsOtherServer: an answer that is not HTTP is a wrong port, and no outage.
func rejectsOtherServer(s *stand) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(s.t)
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096)) // a close with unread bytes would reset the connection
			c.Write([]byte("-ERR unknown command\r\n"))
			c.Close()
		}
	}()
	s.start(patient, "WEIR_DOWN=allow", "WEIR="+l.Addr().String())
	s.want("a request", s.get("/"), 500)
}

// logsCause: without weir the log has its address and the cause.
func logsCause(s *stand, weir, cause string) {
	s.start(patient, "WEIR="+weir)
	s.want("a request", s.get("/"), 503)
	log := strings.ToUpper(s.log())
	if !strings.Contains(log, strings.ToUpper(weir)) || !strings.Contains(log, strings.ToUpper(cause)) {
		s.t.Errorf("the log has not %s and %s", weir, cause)
	}
}

// wantHello checks an answer of the program to a request that may pass.
func (s *stand) wantHello(what string, r reply) {
	s.t.Helper()
	s.want(what, r, 200)
	if r.body != "Hello.\n" {
		s.t.Errorf("%s: the body is %q", what, r.body)
	}
}

// peeked is the state of a key under one limit.
type peeked struct {
	RetryAfter int64 `json:"retry_after_ms"`
	Limits     []struct{ Used int64 }
}

func (p peeked) used() int64 { return p.Limits[0].Used }

// peek returns the state that weir has.
func (s *stand) peek(policy, dimension, value string) (p peeked) {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"policy": policy, "key": map[string]string{dimension: value}})
	res := must.Get(http.Post("http://"+s.options.Weir+"/v1/peek", "application/json", bytes.NewReader(body)))(s.t)
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || len(p.Limits) != 1 {
		s.t.Fatalf("peek of %q: %s: %+v, %v", value, res.Status, p, err)
	}
	return p
}
