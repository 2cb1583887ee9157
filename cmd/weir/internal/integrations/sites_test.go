//go:build linux

package integrations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// A visit is a request to a site whose owner has added directives to the snippet.
type visit struct {
	method, path string
	fields       []string // names and values of the request's header fields, in turns
	status       int
	body         string // a part of the answer's
	kind         string // of the answer: Content-Type; "" = any
	units        int64  // charged
}

// visits sends requests and checks their answers and charges. The policy must count the
// client's address.
func (s *stand) visits(all []visit) {
	s.t.Helper()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, v := range all {
		before := s.peek(s.options.Policy, "ip", "127.0.0.1").used()
		r := s.do(v.method, v.path, "", v.fields...)
		units := s.peek(s.options.Policy, "ip", "127.0.0.1").used() - before
		kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
		if r.status != v.status || !strings.Contains(r.body, v.body) || v.kind != "" && kind != v.kind || units != v.units {
			s.t.Errorf("%s %s %q: status %d, %s, %d units, %q; want %d, %s, %d units, a body with %q",
				v.method, v.path, v.fields, r.status, kind, units, r.body, v.status, v.kind, v.units, v.body)
		}
		if granted := strings.Contains(r.header.Get("RateLimit"), ";r="); granted != (v.units > 0 || v.status == 429) || len(r.header["Ratelimit"]) > 1 {
			s.t.Errorf("%s %s: RateLimit %q", v.method, v.path, r.header["Ratelimit"])
		}
		if r.header.Get("Strict-Transport-Security") == "" {
			s.t.Errorf("%s %s: the header field of the site is missing", v.method, v.path)
		}
	}
}

// useUp takes the units that are left for the client's address.
func (s *stand) useUp() {
	s.t.Helper()
	left := 100 - s.peek("many", "ip", "127.0.0.1").used()
	body := fmt.Sprintf(`{"policy":"many","key":{"ip":"127.0.0.1"},"n":%d}`, left)
	res, err := http.Post("http://"+s.options.Weir+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res.Body.Close()
}

// preflight are the fields by which a browser asks whether a page of another site may send a
// request.
var preflight = []string{"Origin", "https://shop.example.com", "Access-Control-Request-Method", "PUT"}

// sites are the directives of real sites beside those of a snippet, and their visits.
// edit adds them as the comments in the snippet instruct.
var sites = map[string]struct {
	proxy  int // index in proxies
	edit   func(t *testing.T, text string) string
	visits []visit
}{
	"nginx/files": {0, func(t *testing.T, text string) string {
		text = replaceOnce(t, text, "        proxy_pass http://app;\n", `
        try_files $uri $uri/ @app;
`)
		return replaceOnce(t, text, "    location / {\n", `
    add_header Strict-Transport-Security "max-age=63072000" always;
    recursive_error_pages on;
    rewrite ^/old/(.*)$ /$1 last;
    error_page 404 /404.html;
    error_page 500 502 503 504 /50x.html;
    proxy_intercept_errors on;
    satisfy any;
    root  html;
    index index.html;

    location = /50x.html {
        internal;
    }
    location /private/ {
        auth_request /_weir;
        satisfy all;
        deny  all;
    }
    location /secret/ {
        auth_request /_weir;
        satisfy all;
        auth_basic secret;
        auth_basic_user_file passwd;
    }
    location /exempt/ {
        try_files /index.html =404;
    }
    location /moved {
        return 301 /page.html;
    }
    location /gone {
        auth_request /_weir;
        proxy_pass http://127.0.0.1:1;
    }
    location @app {
        auth_request /_weir;
        proxy_pass http://app;
    }
    location / {
`)
	}, []visit{
		{"GET", "/page.html", nil, 200, "a page", "text/html", 1},
		{"GET", "/", nil, 200, "the index", "text/html", 1},              // index
		{"GET", "/missing.js", nil, 200, "app: GET", "", 1},              // try_files
		{"GET", "/old/page.html", nil, 200, "a page", "text/html", 1},    // rewrite of the server
		{"GET", "/status/404", nil, 404, "no such page", "text/html", 1}, // error_page
		{"GET", "/status/403", nil, 403, "Forbidden", "text/html", 1},    // proxy_intercept_errors
		{"GET", "/status/500", nil, 500, "out of order", "text/html", 1}, //
		{"GET", "/gone", nil, 502, "out of order", "text/html", 1},       //
		{"GET", "/closed/", nil, 403, "Forbidden", "text/html", 1},       // a directory without index
		{"GET", "/private/page.html", nil, 403, "Forbidden", "", 0},      // deny
		{"GET", "/secret/page.html", nil, 401, "Authorization", "", 0},   // auth_basic
		{"GET", "/secret/page.html", basic, 200, "a secret", "text/html", 1},
		{"GET", "/exempt/page.html", nil, 200, "the index", "", 0},
		{"GET", "/moved", nil, 301, "Moved", "", 0},
		{"GET", "/_weir", nil, 403, "Forbidden", "", 0},
		{"OPTIONS", "/status/204", preflight, 204, "", "", 0},
		{"GET", "/missing", preflight, 200, "app: GET", "", 1},
	}},
	"nginx/front controller": {0, replaced("    location / {\n", `
    add_header Strict-Transport-Security "max-age=63072000" always;
    root html;
    if (!-e $request_filename) {
        rewrite ^ /status/200 last;
    }
    location / {
`), []visit{
		{"GET", "/post", nil, 200, "app: GET", "", 1},
		{"GET", "/_weir", nil, 403, "Forbidden", "", 0},
	}},
	"nginx/application": {0, replaced("    location / {\n", `
    add_header Strict-Transport-Security "max-age=63072000" always;
    location / {
`), preflightsAndOthers},
	"haproxy": {1, func(t *testing.T, text string) string {
		text = replaceOnce(t, text, "    maxconn 10000\n", "    maxconn 10000\n    http-request redirect location /page.html if { path /above }\n")
		return replaceOnce(t, text, "    default_backend app\n", `
    http-after-response set-header Strict-Transport-Security max-age=63072000
    http-request redirect location /page.html if { path /moved }
    http-request deny if { path_beg /private/ }
    http-request auth realm secret if { path_beg /secret/ } !{ http_auth(people) }
    http-request set-path %[path,regsub(^/old/,/)]
    use_backend static if { path /static }
    default_backend app

userlist people
    user ann insecure-password pass
backend static
    http-request return status 200 content-type text/plain string static
`)
	}, append([]visit{
		{"GET", "/old/page", nil, 200, "app: GET", "", 1},
		{"GET", "/moved", nil, 302, "", "", 1},
		{"GET", "/private/", nil, 403, "Forbidden", "", 1},
		{"GET", "/secret/", nil, 401, "Unauthorized", "", 1},
		{"GET", "/secret/", basic, 200, "app: GET", "", 1},
		{"GET", "/static", nil, 200, "static", "", 1},
		{"GET", "/above", nil, 302, "", "", 0},
	}, preflightsAndOthers...)},
	"caddy/application": {2, replaced("	@preflight {", "	header Strict-Transport-Security max-age=63072000\n\n	@preflight {"), preflightsAndOthers},
	"caddy/files": {2, func(t *testing.T, text string) string {
		text = regexp.MustCompile(`\(app\) {\n[^}]*}`).ReplaceAllLiteralString(text, `(app) {
	root * html
	encode gzip
	rewrite /old/* /page.html
	redir /moved /page.html 301
	basicauth /secret/* {
		ann `+passHash+`
	}
	try_files {path} {path}/ /index.html
	file_server
}`)
		return replaceOnce(t, text, "	@preflight {", "	header Strict-Transport-Security max-age=63072000\n\n	@preflight {")
	}, []visit{
		{"GET", "/page.html", nil, 200, "a page", "text/html", 1},
		{"GET", "/", nil, 200, "the index", "text/html", 1},
		{"GET", "/missing.js", nil, 200, "the index", "text/html", 1},
		{"GET", "/old/page", nil, 200, "a page", "text/html", 1},
		{"GET", "/moved", nil, 301, "", "", 1},
		{"GET", "/secret/page.html", nil, 401, "", "", 1},
		{"GET", "/secret/page.html", basic, 200, "a secret", "text/html", 1},
		{"GET", "/closed/", nil, 404, "", "", 1},
	}},
	"caddy/files behind": {2, func(t *testing.T, text string) string {
		application := regexp.MustCompile(`reverse_proxy (.*) # the application`).FindStringSubmatch(text)
		text = replaceOnce(t, text, "	@preflight {", "	header Strict-Transport-Security max-age=63072000\n\n	@preflight {")
		return text + fmt.Sprintf("http://:%s {\n\tbind 127.0.0.1\n\troot * html\n\tfile_server\n}\n", port(application[1]))
	}, []visit{
		{"GET", "/page.html", nil, 200, "a page", "text/html", 1},
		{"GET", "/closed/", nil, 404, "", "", 1},
	}},
}

// preflightsAndOthers are visits of a site whose application is behind the proxy.
var preflightsAndOthers = []visit{
	{"OPTIONS", "/status/204", preflight, 204, "", "", 0},
	{"OPTIONS", "/status/204", nil, 204, "", "", 1},
	{"OPTIONS", "/status/204", preflight[:2], 204, "", "", 1},
	{"OPTIONS", "/status/204", preflight[2:], 204, "", "", 1},
	{"GET", "/any", preflight, 200, "app: GET", "", 1},
	{"GET", "/status/403", nil, 403, "app: GET", "", 1},
	{"GET", "/status/500", nil, 500, "app: GET", "", 1},
}

// basic are the credentials of ann, whose password is in passwd.
var basic = []string{"Authorization", "Basic YW5uOnBhc3M="}

// passHash is the bcrypt hash of ann's password.
const passHash = "$2b$04$abcdefghijklmnopqrstuufznL8bkzdtHwLhca4To/v9Lo9bA7fR6"

// Directives of a site beside the snippet: each request is charged once, and answers of the
// proxy itself stay as they are.
func TestSites(t *testing.T) {
	t.Parallel()
	for name := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, name, false)
			s.visits(sites[name].visits)
			s.useUp()
			s.visits([]visit{{"GET", "/page.html", nil, 429, "quota-exceeded", "application/problem+json", 0}})
		})
	}
}

// newSite starts a proxy with the directives of a site.
func newSite(t *testing.T, name string, allow bool) *stand {
	t.Helper()
	p := proxies[sites[name].proxy]
	p.edit = sites[name].edit
	start := p.start
	p.start = func(s *stand) {
		s.writeSite()
		start(s)
		s.await("tcp", s.options.App) // which may be a second listener of the proxy
	}
	return newStand(t, p, func(o *Options) {
		o.Policy, o.Dimension, o.Header, o.Allow = "many", "ip", "", allow
		if name == "caddy/files behind" {
			o.App = free(t)
		}
	})
}

// Files are answered as ever while weir is down and the snippet allows. Caddy's file_server takes
// the status of an error that is being handled, so it is a site of its own there.
func TestFilesWithoutWeir(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]int{"nginx/files": 403, "caddy/files behind": 404} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, name, true)
			s.visits(sites[name].visits)
			s.killWeir()
			s.want("a page", s.get("/page.html"), 200)
			s.want("the index", s.get("/"), 200)
			s.want("a part", s.get("/page.html", "Range", "bytes=0-0"), 206)
			s.want("a directory without index", s.get("/closed/"), closed)
		})
	}
}

// writeSite writes the files of a static site into html.
func (s *stand) writeSite() {
	s.t.Helper()
	for name, text := range map[string]string{
		"html/index.html":       "the index",
		"html/page.html":        "a page",
		"html/404.html":         "no such page",
		"html/50x.html":         "out of order",
		"html/secret/page.html": "a secret",
		"html/closed/file":      "not listed",
		"passwd":                "ann:{PLAIN}pass\n",
	} {
		must.Do(s.t, os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o755))
		s.write(name, text)
	}
}

// A denial is a problem document whatever the extension in the path is, and so are the other
// answers of a snippet.
func TestDenialsOfFiles(t *testing.T) {
	each(t, func(o *Options) { o.Policy, o.Dimension, o.Header = "once", "ip", "" }, func(t *testing.T, s *stand) {
		s.want("the first request", s.get("/"), 200)
		for _, path := range []string{"/page.html", "/app.js", "/photo.jpg", "/page", "/a.b/"} {
			s.wantProblem(path, s.get(path), 429)
		}
		s.killWeir()
		if !s.options.Allow {
			s.wantProblem("without weir", s.get("/page.html"), 503)
		}
	})
}

// wantProblem checks a problem document of a snippet.
func (s *stand) wantProblem(what string, r reply, status int) {
	s.t.Helper()
	s.want(what, r, status)
	var problem struct {
		Type, Title string
		Status      int
	}
	if err := json.Unmarshal([]byte(r.body), &problem); err != nil || problem.Status != status || problem.Type == "" || problem.Title == "" {
		s.t.Errorf("%s: %q is no problem document of %d: %v", what, r.body, status, err)
	}
	if kind := r.header.Get("Content-Type"); kind != "application/problem+json" {
		s.t.Errorf("%s: Content-Type %q", what, kind)
	}
}
