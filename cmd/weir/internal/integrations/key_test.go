//go:build linux

package integrations

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
)

// keyCase is a header with one key, two keys or a bad key. The test replaces @ by a
// unique prefix, so that no two cases share a key.
type keyCase struct {
	name   string
	fields []string // name and value in turns
	lines  string   // raw header lines, for fields that HTTP/2 cannot carry
	status int      // required; 0 = 200 or a rejection
}

var keyCases = []keyCase{
	{name: "one line", fields: []string{"X-User", "@ann"}, status: 200},
	{name: "a list in one line", fields: []string{"X-User", "@ann,@bob"}, status: 200},
	{name: "an asterisk", fields: []string{"X-User", "*@"}, status: 200},
	{name: "a placeholder", fields: []string{"X-User", "@{http.request.header.X-Other}%[src]$host", "X-Other", "carl"}, status: 200},
	{name: "two lines", fields: []string{"X-User", "@ann", "X-User", "@bob"}},
	{name: "two equal lines", fields: []string{"X-User", "@ann", "X-User", "@ann"}},
	{name: "three lines", fields: []string{"X-User", "@ann", "X-User", "@bob", "X-User", "@ann"}},
	{name: "an asterisk and another line", fields: []string{"X-User", "*", "X-User", "@ann"}},
	{name: "an empty line first", fields: []string{"X-User", "", "X-User", "@ann"}},
	{name: "an empty line last", fields: []string{"X-User", "@ann", "X-User", ""}},
	{name: "an empty line alone", fields: []string{"X-User", ""}, status: 400},
	{name: "no line", fields: []string{"X-Other", "@ann"}, status: 400},
	{name: "underscores beside dashes", fields: []string{"X-User", "@ann", "X_User", "@bob"}},
	{name: "underscores alone", fields: []string{"X_User", "@ann"}, status: 400},
	{name: "1024 bytes", fields: []string{"X-User", "@" + strings.Repeat("x", 1024-len(keyPrefix(0)))}, status: 200},
	{name: "1025 bytes", fields: []string{"X-User", "@" + strings.Repeat("x", 1025-len(keyPrefix(0)))}, status: 400},
	{name: "two lines of 1000 bytes", fields: []string{"X-User", "@" + strings.Repeat("x", 1000), "X-User", "@" + strings.Repeat("y", 1000)}},
	{name: "7 KiB", fields: []string{"X-User", "@" + strings.Repeat("x", 7<<10)}, status: 400},
	{name: "14 KiB", fields: []string{"X-User", "@" + strings.Repeat("x", 14<<10)}, status: 400},
	{name: "a little more than fits into the client of HAProxy's Lua", fields: []string{"X-User", "@" + strings.Repeat("x", 15_168)}, status: 400},
	{name: "a little less than fits into HAProxy", fields: []string{"X-User", "@" + strings.Repeat("x", 15_200)}, status: 400},
	{name: "15 KiB", fields: []string{"X-User", "@" + strings.Repeat("x", 15<<10)}, status: 400},
	{name: "16 KiB", fields: []string{"X-User", "@" + strings.Repeat("x", 16<<10)}, status: 400},
	{name: "200 KiB", fields: []string{"X-User", "@" + strings.Repeat("x", 200<<10)}, status: 400},
	{name: "14 KiB beside the key", fields: []string{"X-User", "@ann", "X-A", strings.Repeat("x", 7<<10), "X-B", strings.Repeat("x", 7<<10)}},
	{name: "900 KiB beside the key", fields: []string{"X-User", "@ann", "X-Other", strings.Repeat("x", 900<<10)}},
	{name: "200 KiB beside the key", fields: []string{"X-User", "@ann", "X-Other", strings.Repeat("x", 200<<10)}},

	{name: "two lines in other letters", lines: "X-User: @ann\r\nx-uSER: @bob\r\n"},
	{name: "a folded line", lines: "X-User: @ann\r\n bob\r\n"},
	{name: "a folded line with a tab", lines: "X-User: @ann\r\n\tbob\r\n"},
	{name: "a line that is folded before its value", lines: "X-User:\r\n @ann\r\n"},
	{name: "a key folded into another line", lines: "X-User: @ann\r\nX-Other: a\r\n X-User: @bob\r\n"},
	{name: "a folded line and another", lines: "X-User: @ann\r\n ,\r\nX-User: @bob\r\n"},
	{name: "a line feed alone", lines: "X-User: @ann\nX-User: @bob\r\n"},
	{name: "a space before the colon", lines: "X-User : @ann\r\nX-User: @bob\r\n"},
	{name: "spaces around", lines: "X-User: \t @ann \t \r\n"},
	{name: "a control character", lines: "X-User: @a\x01nn\r\n"},
	{name: "a zero byte", lines: "X-User: @a\x00nn\r\n"},
	{name: "a carriage return", lines: "X-User: @a\rnn\r\n"},
	{name: "a hop-by-hop key", lines: "X-User: @ann\r\nConnection: close, X-User\r\n"},
	{name: "a hop-by-hop key of the gate", lines: "X-User: @ann\r\nConnection: close, Weir-Key\r\n"},
	{name: "a key of the gate", lines: "Weir-Key: @ann\r\nX-User: @bob\r\n"},
	{name: "a body in pieces", lines: "X-User: @ann\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"},
}

// prefixed returns the case with unique keys.
func (c keyCase) prefixed(i int) keyCase {
	c.lines = strings.ReplaceAll(c.lines, "@", keyPrefix(i))
	c.fields = slices.Clone(c.fields)
	for j := range c.fields {
		c.fields[j] = strings.ReplaceAll(c.fields[j], "@", keyPrefix(i))
	}
	return c
}

func keyPrefix(i int) string { return fmt.Sprintf("%03d-", i) }

// try sends the request of a case and checks that the application got the value that
// weir counted, or that the proxy rejected the request.
func (s *stand) try(i int, c keyCase, send func(path string, c keyCase) (int, error)) {
	s.t.Helper()
	path := "/key/" + strconv.Itoa(i)
	status, err := send(path, c.prefixed(i))
	var seen []*http.Request
	for j := range s.app.requests() {
		if r := s.app.asked(j); r.URL.Path == path {
			seen = append(seen, r)
		}
	}
	if err != nil && c.status != 200 && len(seen) == 0 {
		return // a closed connection or stream is a rejection as well
	}
	if err != nil || status != 200 {
		if len(seen) != 0 || c.status == 200 || err != nil || status != 400 && status != 431 {
			s.t.Errorf("%s: status %d, %v, and the application was asked %d times; want 200, or 400 and no request", c.name, status, err, len(seen))
		}
		return
	}
	if c.status >= 400 || len(seen) != 1 {
		s.t.Errorf("%s: status %d, and the application was asked %d times; want %d", c.name, status, len(seen), c.status)
		return
	}
	h := seen[0].Header
	if len(h["X-User"]) != 1 || len(h["X_user"]) != 0 {
		s.t.Errorf("%s: the application saw %q and %q, want one value", c.name, h["X-User"], h["X_user"])
		return
	}
	if n := s.peek("users", "user", h["X-User"][0]).used(); n != 1 {
		s.t.Errorf("%s: the application saw %.40q, which weir counted %d times, want once", c.name, h["X-User"][0], n)
	}
}

// The application gets exactly the counted value, or the request is rejected. Otherwise
// clients could choose the key that a request is charged to.
func TestCountedKeyIsPassed(t *testing.T) {
	each(t, func(*Options) {}, func(t *testing.T, s *stand) {
		for i, c := range keyCases {
			s.try(i, c, s.sendLines)
		}
	})
}

// sendLines sends a request with raw header lines.
func (s *stand) sendLines(path string, c keyCase) (int, error) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.options.Listen)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout))
	for i := 0; i < len(c.fields); i += 2 {
		c.lines += c.fields[i] + ": " + c.fields[i+1] + "\r\n"
	}
	if !strings.Contains(c.lines, "Connection:") {
		c.lines += "Connection: close\r\n"
	}
	body := ""
	if strings.Contains(c.lines, "chunked") {
		body = "3\r\nabc\r\n0\r\n\r\n"
	}
	// A proxy may answer and close before it has read everything.
	go fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n%s", path, s.options.Listen, c.lines, body)
	r := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0, err
		}
		if res.StatusCode != http.StatusContinue {
			return res.StatusCode, nil
		}
	}
}

// The same over HTTP/2, in clear text and with TLS.
func TestCountedKeyIsPassedOverHTTP2(t *testing.T) {
	t.Parallel()
	pair := listentest.NewAuthority(t).Issue(t, "weir.test")
	for _, p := range proxies {
		for name, secure := range map[string]bool{"h2c": false, "h2": true} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := p // both subtests change it
				if change, ok := overHTTP2[p.name+"/"+name]; ok {
					p.edit = func(_ *testing.T, text string) string {
						return regexp.MustCompile(change[0]).ReplaceAllString(text, change[1])
					}
				}
				p.global = "\tauto_https off\n\tservers {\n\t\tprotocols h1 h2 h2c\n\t}\n"
				start := p.start
				p.start = func(s *stand) { s.write("cert.pem", pair.Cert+pair.Key); start(s) }
				s := newStand(t, p, func(o *Options) { o.Allow = true })
				s.client.Transport = http2Transport(secure)
				t.Cleanup(s.client.CloseIdleConnections)
				var unanswered []int
				for i, c := range keyCases {
					switch {
					case c.lines != "":
					case p.name != "haproxy" || len(c.fields[1]) < 15_000 && !strings.Contains(c.name, "00 KiB"):
						s.try(i, c, s.sendFields)
					case !strings.Contains(c.name, "00 KiB"):
						unanswered = append(unanswered, i)
					default: // HAProxy leaves streams of more than 64 KiB without an answer
					}
				}
				// HAProxy answers few of the others, and no stream beside them. So they come
				// last and together, and the client gives up soon: no answer is a rejection too.
				s.client.Timeout = time.Second
				var all sync.WaitGroup
				for _, i := range unanswered {
					all.Go(func() { s.try(i, keyCases[i], s.sendFields) })
				}
				all.Wait()
			})
		}
	}
}

// overHTTP2 are the patterns in snippets, and their replacements that speak HTTP/2 to clients, with
// TLS (h2) or in clear text (h2c). The others do so as they are.
var overHTTP2 = map[string][2]string{
	"nginx/h2":   {`listen ([0-9.:]+);`, "listen $1 ssl http2; ssl_certificate cert.pem; ssl_certificate_key cert.pem;"},
	"nginx/h2c":  {`listen ([0-9.:]+);`, "listen $1 http2;"},
	"haproxy/h2": {`bind ([0-9.:]+)`, "bind $1 ssl crt cert.pem alpn h2"},
	"caddy/h2":   {`http://(:[0-9]+) {`, "https://$1 {\n\ttls cert.pem cert.pem"},
}

func http2Transport(secure bool) *http.Transport {
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP2(secure)
	t.Protocols.SetUnencryptedHTTP2(!secure)
	return t
}

// sendFields sends a request through the client of the stand.
func (s *stand) sendFields(path string, c keyCase) (int, error) {
	s.t.Helper()
	scheme := "http://"
	if s.client.Transport.(*http.Transport).Protocols.HTTP2() {
		scheme = "https://"
	}
	r, err := http.NewRequest("GET", scheme+s.options.Listen+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(c.fields); i += 2 {
		name := http.CanonicalHeaderKey(c.fields[i])
		r.Header[name] = append(r.Header[name], c.fields[i+1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	if res.ProtoMajor != 2 {
		s.t.Fatalf("%s: answered over %s", c.name, res.Proto)
	}
	return res.StatusCode, nil
}

// A request without a valid key is rejected while weir is down, too, also by snippets
// that allow while weir is down.
func TestBadKeyWithoutWeir(t *testing.T) {
	each(t, func(*Options) {}, func(t *testing.T, s *stand) {
		s.killWeir()
		for i, c := range keyCases {
			if c.status != 400 {
				continue
			}
			if status, err := s.sendLines("/", c.prefixed(i)); err == nil && status != 400 && status != 431 || s.app.requests() != 0 {
				t.Errorf("%s: status %d, and the application was asked %d times", c.name, status, s.app.requests())
			}
		}
	})
}
