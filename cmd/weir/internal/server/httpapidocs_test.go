package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the answers in docs/http-api.md")

const (
	httpAPIPage = "../../../../docs/http-api.md"
	elided      = "…"
)

var (
	pageExample = regexp.MustCompile("(?s)```http( token)?\n([A-Z]+) ([^\n]+)\n(.*?)```\n")
	pageToken   = regexp.MustCompile(`"reservation":"([^"]+)"`)
)

// TestHTTPAPIPage runs the examples of docs/http-api.md against a server and compares the
// answers. Each answer must also match openapi.json, and each call of openapi.json must be
// in an example that succeeds. go test ./cmd/weir/internal/server -run HTTPAPIPage -rewrite writes
// the answers.
//
// The policies are those of the first block of YAML. The page breaks the lines of JSON as it likes,
// and writes … for text that it leaves out.
func TestHTTPAPIPage(t *testing.T) {
	page, err := os.ReadFile(httpAPIPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	policies, _, _ := strings.Cut(rest, "```\n")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 20, 13, 7, 31, 5000, time.UTC)))
		open, private := pageServer(t, policies), pageServer(t, policies, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
		document := openDocument(t, open)
		token := ""
		written := pageExample.ReplaceAllStringFunc(string(page), func(example string) string {
			m := pageExample.FindStringSubmatch(example)
			body, want, _ := strings.Cut("\n"+m[4], "\n\n")
			body = strings.TrimSpace(body)
			s := open
			if m[1] != "" {
				s = private
			}
			r := ask(s, m[2], m[3], strings.ReplaceAll(body, elided, token))
			if err := document.check(m[2], m[3], r); err != nil {
				t.Error(err)
			}
			got := pageAnswer(r)
			if found := pageToken.FindStringSubmatch(r.body); found != nil {
				token = found[1]
				got = strings.ReplaceAll(got, token, elided)
			}
			if pageShows(want, got) {
				return example
			}
			if !*rewrite {
				t.Errorf("%s %s %s\ngot\n%s\nthe page has\n%s", m[2], m[3], body, got, want)
			}
			if body != "" {
				body += "\n"
			}
			return fmt.Sprintf("```http%s\n%s %s\n%s\n%s```\n", m[1], m[2], m[3], body, got)
		})
		document.wantAllCalled()
		if *rewrite {
			must.Do(t, os.WriteFile(httpAPIPage, []byte(written), 0o644))
		}
	})
}

func pageServer(t *testing.T, policies string, change ...func(*Config)) *Server {
	t.Helper()
	f, err := policy.Parse("weir.yaml", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newServer(t, nil, append(change, func(c *Config) { c.Policies, c.Inline = f, true })...)
	s.api.Reread = func() error { return s.Reload(f, nil) }
	return s
}

// pageAnswer returns the answer as the page shows it: the status, the fields that a client
// reads, and the body.
func pageAnswer(r reply) string {
	b := fmt.Sprintf("%d %s\n", r.status, http.StatusText(r.status))
	for _, field := range []string{"RateLimit-Policy", "RateLimit", "Retry-After", "WWW-Authenticate"} {
		if lines := append(r.header[field], r.header[http.CanonicalHeaderKey(field)]...); len(lines) > 0 {
			b += field + ": " + lines[0] + "\n"
		}
	}
	body := strings.TrimSuffix(r.body, "\n")
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(body)) == nil { // protobuf's JSON has random spaces
		body = breakLines(compact.String())
	}
	if body == "" {
		return b
	}
	return b + body + "\n"
}

// maxColumn is the longest line of JSON that breakLines writes, if no member is longer.
const maxColumn = 110

// breakLines breaks JSON behind members, so that a page needs no long lines.
func breakLines(compact string) string {
	var out strings.Builder
	begin, comma, inString := 0, 0, false
	for i := 0; i < len(compact); i++ {
		switch compact[i] {
		case '\\':
			i++
		case '"':
			inString = !inString
		case ',':
			if !inString && comma > begin && i-begin >= maxColumn {
				out.WriteString(compact[begin:comma] + "\n ")
				begin = comma
			}
			if !inString {
				comma = i + 1
			}
		}
	}
	if comma > begin && len(compact)-begin > maxColumn {
		out.WriteString(compact[begin:comma] + "\n ")
		begin = comma
	}
	return out.String() + compact[begin:]
}

var lineBreak = regexp.MustCompile(`\n *`)

// pageShows reports whether a page shows an answer: with other breaks of lines, and with … for what
// it leaves out.
func pageShows(page, answer string) bool {
	pattern := regexp.QuoteMeta(lineBreak.ReplaceAllString(page, ""))
	pattern = "^" + strings.ReplaceAll(pattern, elided, ".*") + "$"
	return regexp.MustCompile(pattern).MatchString(lineBreak.ReplaceAllString(answer, ""))
}

// TestPageShows: a page may leave text out and break lines; another number is a difference.
func TestPageShows(t *testing.T) {
	const answer = "200 OK\n{\"allowed\":true,\"limits\":[{\"max\":3}]}\n"
	for page, want := range map[string]bool{
		answer: true,
		"200 OK\n{\"allowed\":true,\n \"limits\":[{\"max\":3}]}\n": true,
		"200 OK\n{\"allowed\":true,…}\n":                           true,
		"200 OK\n{\"allowed\":false,…}\n":                          false,
		"200 OK\n{…,\"limits\":[{\"max\":4}]}\n":                   false,
		"400 Bad Request\n…\n":                                     false,
	} {
		if pageShows(page, answer) != want {
			t.Errorf("%q shows the answer: %t", page, !want)
		}
	}
	long := strings.Repeat(`"member, of JSON":1000,`, 20)
	for line := range strings.Lines(breakLines("{" + long + long + `"last":1}`)) {
		if len(line) > maxColumn+20 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

// openAPIDocument is the document of a server, with the calls that were made.
type openAPIDocument struct {
	t        *testing.T
	paths    map[string]map[string]any
	compiler *validator.Compiler
	called   map[string]bool
}

func openDocument(t *testing.T, s *Server) *openAPIDocument {
	t.Helper()
	text := []byte(ask(s, "GET", "/openapi.json", "").body)
	v, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := &openAPIDocument{t: t, compiler: validator.NewCompiler(), called: map[string]bool{}}
	must.Do(t, d.compiler.AddResource("openapi.json", v))
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	must.Do(t, json.Unmarshal(text, &document))
	d.paths = document.Paths
	return d
}

var pathName = regexp.MustCompile(`^(/gate/|/v1/keys/|/v1/overrides/).*`)

// check compares an answer with the document: its status and, of JSON, its schema.
func (d *openAPIDocument) check(method, target string, r reply) error {
	path, _, _ := strings.Cut(target, "?")
	path = pathName.ReplaceAllString(path, "${1}{policy}")
	operation, ok := d.paths[path][strings.ToLower(method)].(map[string]any)
	if !ok {
		return fmt.Errorf("openapi.json has no %s %s", method, path)
	}
	if r.status < 300 {
		d.called[method+" "+path] = true
	}
	response, ok := operation["responses"].(map[string]any)[fmt.Sprint(r.status)].(map[string]any)
	if !ok {
		return fmt.Errorf("openapi.json: %s %s has no answer %d", method, path, r.status)
	}
	reference := fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%d", strings.ReplaceAll(strings.ReplaceAll(path, "/", "~1"), "{policy}", "%7Bpolicy%7D"), strings.ToLower(method), r.status)
	if response["$ref"] != nil {
		reference = "openapi.json#/components/responses/Problem"
		response = map[string]any{"content": map[string]any{"application/problem+json": nil}}
	}
	content, _ := response["content"].(map[string]any)
	kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	if _, ok := content[kind]; !ok {
		if kind != "" || len(content) > 0 {
			return fmt.Errorf("openapi.json: %s %s %d has no content %q", method, path, r.status, kind)
		}
		return nil
	}
	if !strings.HasSuffix(kind, "json") {
		return nil
	}
	schema, err := d.compiler.Compile(reference + "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema")
	if err != nil {
		return err
	}
	v, err := validator.UnmarshalJSON(strings.NewReader(r.body))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", method, path, err, r.body)
	}
	return nil
}

// wantAllCalled reports the calls of the document that no example makes with success.
func (d *openAPIDocument) wantAllCalled() {
	for path, item := range d.paths {
		for method := range item {
			if call := strings.ToUpper(method) + " " + path; !d.called[call] && call != "POST /gate/{policy}" {
				d.t.Errorf("no example succeeds with %s", call)
			}
		}
	}
}

// TestOpenAPIRejectsWrongAnswers: the schemas are strict enough to notice a member too
// many, a missing one and a wrong type.
func TestOpenAPIRejectsWrongAnswers(t *testing.T) {
	s, _ := newServer(t, nil)
	document, good := openDocument(t, s), ask(s, "POST", "/v1/check", searchBody)
	for _, wrong := range []string{
		strings.Replace(good.body, `"granted":1`, `"granted":"1"`, 1),
		strings.Replace(good.body, `"granted":1,`, ``, 1),
		strings.Replace(good.body, `"granted":1`, `"granted":1,"grants":1`, 1),
	} {
		if document.check("POST", "/v1/check", reply{200, good.header, wrong}) == nil {
			t.Errorf("passes: %s", wrong)
		}
	}
}
