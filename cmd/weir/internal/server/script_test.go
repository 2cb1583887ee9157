package server

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/txtar"
	"github.com/weirlimit/weir/policy"
)

// TestScripts plays each script of testdata on a server of its own, whose clock begins at
// 2000-01-01. The policies are those of weir.yaml at the beginning of the archive, or else in
// the folder. Bad input reaches no engine, in down.txtar the store does not answer, and in full.txtar
// it may hold one key. Where the name of the archive has inline, calls may carry policies.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archive, policies := txtar.Parse(text), file(t)
		var e engine.Engine
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, "bad"):
			e = unreached{t}
		case name == "down.txtar":
			e = down{}
		case name == "full.txtar":
			e = weir.NewMemory(weir.MaxKeys(1), weir.MaxBytes(1<<20))
		}
		for _, f := range archive.Files {
			if f.Name == "weir.yaml" {
				var err error
				policies, err = policy.Parse(f.Name, f.Data)
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			t.Run(filepath.Base(path)+" "+f.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, logged := newServer(t, e, func(c *Config) {
						c.Policies, c.Inline = policies, strings.Contains(path, "inline")
					})
					(&player{t: t, s: s, logged: logged, names: map[string]string{}}).play(string(f.Data))
				})
			})
		}
	}
}

// play runs a script: calls, each with its whole answer as a pattern.
//
//	let search "policy":"search","key":{"ip":"1"}
//	POST /v1/check {$search} => 200 {"allowed":true,…,"at":"$first",…
//	WEIR.PEEK search ip=1 => *9 :1 :1 :1 …
//	ENVOY search ip=1 ip=2 => OVER_LIMIT 0/2 1/2
//	POST /v1/check {$search}
//	  Idempotency-Key: order-7
//	=> 200 {"allowed":true,…
//	  Retry-After: 60
//	… "at":"$first"…
//	! "replayed"
//
// In a pattern … is any text. A name such as $first stores what it matches, up to a quotation
// mark or a space; from then on it stands for that text, also in calls. Indented lines are
// header fields, of the call or of the answer above them; one without a value must be absent.
// A line that begins with … is a further pattern of the answer, and one that begins with ! is
// text that it does not hold. A problem document is shown as its detail.
//
// Other lines: let NAME TEXT; sleep DURATION; reload POLICY; metric LINE of /metrics; logged
// TEXT, or logged N times TEXT; N times CALL on one line; and # a comment, which messages show.
//
// play returns the stored texts.
func play(t *testing.T, s *Server, script string) (names map[string]string) {
	t.Helper()
	p := &player{t: t, s: s, names: map[string]string{}}
	p.play(script)
	return p.names
}

func (p *player) play(script string) {
	p.t.Helper()
	for line := range strings.Lines(script) {
		p.lines = append(p.lines, strings.TrimSpace(strings.TrimLeft(line, "\t")))
		if strings.HasPrefix(strings.TrimLeft(line, "\t"), "  ") {
			p.lines[len(p.lines)-1] = "  " + p.lines[len(p.lines)-1]
		}
	}
	for len(p.lines) > 0 {
		p.step()
	}
}

// player is a script under way.
type player struct {
	t       *testing.T
	s       *Server
	logged  *bytes.Buffer     // only of TestScripts
	lines   []string          // those that follow
	names   map[string]string // stored texts
	comment string            // the last one
}

var placeholder = regexp.MustCompile(`…|\$[a-z]+`)

// fill replaces the names in a text that are known.
func (p *player) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if known, ok := p.names[strings.TrimPrefix(name, "$")]; ok {
			return known
		}
		return name
	})
}

// next returns the next line if it has the prefix, without the prefix.
func (p *player) next(prefix string) (line string, ok bool) {
	if len(p.lines) > 0 {
		if line, ok = strings.CutPrefix(p.lines[0], prefix); ok {
			p.lines = p.lines[1:]
		}
	}
	return line, ok
}

func (p *player) step() {
	p.t.Helper()
	line, _ := p.next("")
	first, call, _ := strings.Cut(line, " times ")
	if n, err := strconv.Atoi(first); err == nil {
		p.lines = slices.Concat(slices.Repeat([]string{call}, n), p.lines)
		return
	}
	line = p.fill(line)
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "":
	case "#":
		p.comment = rest
	case "let":
		name, text, _ := strings.Cut(rest, " ")
		p.names[name] = text
	case "sleep":
		d, err := time.ParseDuration(rest)
		if err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(d)
	case "reload":
		reload(p.t, p.s, "  "+rest+"\n")
	case "metric":
		wantMetrics(p.t, p.s, rest)
	case "logged":
		if n, text, counts := strings.Cut(rest, " times "); counts {
			p.match(line, n, strconv.Itoa(strings.Count(p.logged.String(), text)))
			if n == "0" {
				break
			}
			rest = text
		}
		p.compare(line, "…"+rest+"…", reply{body: p.logged.String()})
	default:
		call, pattern, sameLine := strings.Cut(line, " => ")
		verb, rest, _ = strings.Cut(call, " ")
		header := http.Header{}
		if !sameLine {
			for field, ok := p.next("  "); ok; field, ok = p.next("  ") {
				name, value, _ := strings.Cut(field, ":")
				header.Add(name, strings.TrimSpace(p.fill(value)))
			}
			pattern, _ = p.next("=> ")
		}
		r := p.call(verb, rest, header)
		p.compare(call, pattern, r)
	}
}

// call makes a call and returns its answer: of HTTP the status and the body.
func (p *player) call(verb, rest string, header http.Header) reply {
	p.t.Helper()
	switch {
	case verb == "ENVOY":
		words := strings.Fields(rest)
		a, err := askEnvoy(p.t, p.s, p.t.Context(), words[0], words[1:]...)
		if err != nil {
			return reply{body: err.Error()}
		}
		text := a.OverallCode.String()
		for _, s := range a.Statuses {
			text += fmt.Sprintf(" %d/%d", s.LimitRemaining, s.CurrentLimit.GetRequestsPerUnit())
		}
		return reply{body: text}
	case strings.HasPrefix(verb, "WEIR."):
		return reply{body: strings.TrimSpace(askRESP(p.t, p.s, verb+" "+rest))}
	}
	target, body, _ := strings.Cut(rest, " ")
	target, query, _ := strings.Cut(target, "?")
	return ask(p.s, verb, target, body, withQuery(query), func(r *http.Request) { r.Header = header })
}

// compare holds an answer to the patterns below the call.
func (p *player) compare(call, pattern string, r reply) {
	p.t.Helper()
	what := p.comment + ": " + call
	text := strings.TrimSuffix(r.body, "\n")
	if r.header.Get("Content-Type") == "application/problem+json" {
		text = wantProblem(p.t, what, r, r.status).Detail
	}
	if r.status != 0 {
		text = strings.TrimSpace(fmt.Sprintf("%d %s", r.status, text))
	}
	p.match(what, pattern, text)
	for len(p.lines) > 0 {
		if field, ok := p.next("  "); ok {
			name, want, _ := strings.Cut(field, ":")
			lines, spelled := r.header[name]
			if !spelled {
				lines = r.header.Values(name)
			}
			p.match(what+", "+name, strings.TrimSpace(want), strings.Join(lines, " + "))
		} else if more, ok := p.next("…"); ok {
			p.match(what, "…"+more, text)
		} else if absent, ok := p.next("! "); !ok {
			return
		} else if strings.Contains(text, p.fill(absent)) {
			p.t.Errorf("%s\ngot  %s\nwant no %s", what, text, absent)
		}
	}
}

// match holds a text to a pattern, and stores the names.
func (p *player) match(what, pattern, text string) {
	p.t.Helper()
	expression, rest := "(?s)^", pattern
	for {
		at := placeholder.FindStringIndex(rest)
		if at == nil {
			break
		}
		expression += regexp.QuoteMeta(rest[:at[0]])
		name := rest[at[0]+1 : at[1]]
		switch known, ok := p.names[name]; {
		case rest[at[0]] != '$':
			expression += ".*?"
		case ok:
			expression += regexp.QuoteMeta(known)
		default:
			expression += "(?P<" + name + `>[^" ]+)`
		}
		rest = rest[at[1]:]
	}
	e := regexp.MustCompile(expression + regexp.QuoteMeta(rest) + "$")
	m := e.FindStringSubmatch(text)
	if m == nil {
		p.t.Errorf("%s\ngot  %s\nwant %s", what, text, pattern)
		return
	}
	for i, name := range e.SubexpNames() {
		if name != "" {
			p.names[name] = m[i]
		}
	}
}
