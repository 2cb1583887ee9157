//go:build linux

package integrations

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The key of a websocket and its answer, from RFC 6455.
const (
	socketKey    = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	socketAnswer = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)

// upgrade requests another protocol through the proxy. It returns the connection after
// the header of the answer.
func (s *stand) upgrade(user, protocol, fields string) (*http.Response, net.Conn, *bufio.Reader) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.options.Listen)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testTimeout))
	fmt.Fprintf(c, "GET /echo HTTP/1.1\r\nHost: %s\r\nX-User: %s\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\n%s\r\n", s.options.Listen, user, protocol, fields)
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, c, r
}

// echo is an application of another protocol: it returns its input.
func echo(w http.ResponseWriter) {
	c, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+socketAnswer+"\r\n")
	io.Copy(c, rw)
}

// A websocket is counted once, when it begins.
func TestUpgrades(t *testing.T) {
	each(t, func(*Options) {}, func(t *testing.T, s *stand) {
		for i := range 3 {
			res, c, r := s.upgrade("ann", "WebSocket", socketKey)
			if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "websocket" {
				t.Fatalf("connection %d: %s %v", i+1, res.Status, res.Header)
			}
			for _, line := range []string{"hello\n", strings.Repeat("x", 1<<16) + "\n"} {
				io.WriteString(c, line)
				if got, err := r.ReadString('\n'); got != line {
					t.Fatalf("connection %d: %d bytes came back of %d, %v", i+1, len(got), len(line), err)
				}
			}
			c.Close()
		}
		before := s.app.requests()
		res, _, _ := s.upgrade("ann", "websocket", socketKey)
		if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" || s.app.requests() != before {
			t.Errorf("the fourth: %s %v, and the application was asked %d times", res.Status, res.Header, s.app.requests()-before)
		}
		s.wantGranted("a request without upgrade", s.get("/", "X-User", "bob"), 2)

		// Snippets allow no other upgrade: over HTTP/2 further requests would pass uncounted.
		for _, protocol := range []string{"h2c", "websocket, h2c"} {
			res, _, _ := s.upgrade("carl", protocol, socketKey+"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n")
			if asked := s.app.asked(s.app.requests() - 1); res.StatusCode != 200 || strings.Contains(asked.Header.Get("Upgrade"), "h2c") {
				t.Errorf("%s: %s, and the application is asked for %q", protocol, res.Status, asked.Header["Upgrade"])
			}
		}
	})
}

// HEAD has the header fields of GET, a body may be chunked, and a client cannot set an
// idempotency key, which would make all its requests count as one.
func TestOtherRequests(t *testing.T) {
	each(t, func(*Options) {}, func(t *testing.T, s *stand) {
		r := s.do("HEAD", "/", "", "X-User", "ann")
		if r.status != 200 || !strings.Contains(r.header.Get("RateLimit"), ";r=2;t=") || r.body != "" {
			t.Errorf("HEAD: %d %v %q", r.status, r.header, r.body)
		}
		for i, want := range []int{200, 200, 429} {
			r := s.do("POST", "/", "body", "X-User", "ann", "Idempotency-Key", "mine", "X-Request-Id", "mine")
			s.want("request "+strconv.Itoa(i+2)+", all of one name", r, want)
		}
		if r := s.do("HEAD", "/", "", "X-User", "ann"); r.status != 429 || r.header.Get("Retry-After") == "" || r.body != "" {
			t.Errorf("HEAD that is denied: %d %v %q", r.status, r.header, r.body)
		}

		body := io.MultiReader(strings.NewReader("one"), strings.NewReader("two"))
		pieces, err := http.NewRequest("POST", "http://"+s.options.Listen+"/", body)
		if err != nil {
			t.Fatal(err)
		}
		pieces.Header.Set("X-User", "bob")
		pieces.Header.Set("Expect", "100-continue")
		res, err := s.client.Do(pieces)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if b, _ := io.ReadAll(res.Body); string(b) != "app: POST, 6 bytes" {
			t.Errorf("a body in pieces: %s %q", res.Status, b)
		}
	})
}
