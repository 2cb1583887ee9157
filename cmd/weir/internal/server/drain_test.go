package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// held is an engine that holds its decisions until they are released.
type held struct {
	engine.Engine
	arrived chan struct{}
	release chan struct{}
}

func newHeld() *held {
	return &held{weir.NewMemory(), make(chan struct{}, 100), make(chan struct{})}
}

func (h *held) Do(ctx context.Context, calls []engine.Call) {
	h.arrived <- struct{}{}
	<-h.release
	h.Engine.Do(ctx, calls)
}

// With Linger, the server serves requests after /readyz has reported 503.
func TestLingerServesAfterReadyzFails(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Limits.Linger = patience })
	stop := start(t, s)
	go stop()
	untilDraining(t, s)
	play(t, s, `
		GET /readyz => 503 {"ready":false,"why":"draining…
		GET /livez => 200 …
	`)
	r, body, err := checkOver(s, searchBody)
	if err != nil || r.StatusCode != 200 {
		t.Errorf("a request while lingering: %v, %v, %s; want an answer", err, r, body)
	}
	s.main.socket.Close() // ends the linger
}

// Answers during a drain announce that the connection will be closed, so that clients
// with busy connections lose no request.
func TestDrainLosesNoRequest(t *testing.T) {
	const clients = 4
	s, _ := newServer(t, nil, func(c *Config) { c.Limits.Linger = patience })
	stop := start(t, s)
	warm, done := make(chan struct{}, 2*clients), make(chan error, clients)
	for range clients {
		c := dial(t, s)
		go func() {
			err := hammer(c, warm)
			warm <- struct{}{} // also if it failed before ten answers
			done <- err
		}()
	}
	for range clients {
		<-warm
	}
	go stop()
	untilDraining(t, s)
	for i := range clients { // all leave during the linger
		if err := <-done; err != nil {
			t.Errorf("client %d lost a request: %v", i+1, err)
		}
	}
	s.main.socket.Close() // ends the linger
}

// hammer sends requests on c, one after the other, until an answer announces that the
// connection will be closed. It reports on warm after ten answers.
func hammer(c net.Conn, warm chan<- struct{}) error {
	in := bufio.NewReader(c)
	for n := 1; ; n++ {
		if _, err := fmt.Fprint(c, "GET /gate/push?teacher=42 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
		if n == 10 {
			warm <- struct{}{}
		}
		if r.Close {
			return nil
		}
	}
}

func TestDrainCutsOffHangingRequests(t *testing.T) {
	e := newHeld()
	s, _ := newServer(t, e, func(c *Config) { c.Limits.Drain = 20 * time.Millisecond })
	stop := start(t, s)
	lost := make(chan error, 1)
	go func() {
		_, _, err := checkOver(s, searchBody)
		lost <- err
	}()
	<-e.arrived
	if err := stop(); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve with a request that hangs: %v, want a \"cut off\" error", err)
	}
	if err := <-lost; err == nil || os.IsTimeout(err) {
		t.Errorf("a request that was cut off: %v, want the end of its connection", err)
	}
	close(e.release)
}

// serveInMemory serves over a listener in memory until stop or the end of a bubble of synctest.
func serveInMemory(t *testing.T, s *Server) (on *bufconn.Listener, stop func() error) {
	t.Helper()
	must.Do(t, s.Listen())
	s.main.socket.Listener.Close()
	on = bufconn.Listen(1 << 20)
	s.main.socket.Listener = on
	return on, start(t, s)
}

// TestDrainEndsConnectionsWithoutARequest: one that sends nothing, which net/http takes for busy for
// five seconds, neither delays the end nor counts as a request that was cut off.
func TestDrainEndsConnectionsWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil, func(c *Config) { c.Limits.Drain = 2 * time.Second })
		on, stop := serveInMemory(t, s)
		silent, err := on.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		must.Do(t, stop())
	})
}

// TestDrainAnswersTheFirstRequest: a connection that was accepted at the end has its answer, though
// its request arrives when no further connection is accepted.
func TestDrainAnswersTheFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		on, stop := serveInMemory(t, s)
		c, err := on.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait() // it is accepted
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		time.Sleep(firstCallTime / 2)
		fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != 200 || !r.Close {
			t.Errorf("%+v, %v; want an answer that ends the connection", r, err)
		}
		must.Do(t, <-ended)
	})
}

// deadlineSlack is how much later than configured a deadline of a connection may fire.
const deadlineSlack = 100 * time.Millisecond

// Clients that never finish their requests lose their connections. Other clients are
// served meanwhile.
func TestUnfinishedRequestsAreCutOff(t *testing.T) {
	const short, long = time.Second, 2 * patience
	for _, c := range []struct {
		name   string
		limits Limits
		half   string
		answer string
	}{
		{"half a header", Limits{ReadHeader: short, Read: long, Idle: long}, "POST /v1/check HTTP/1.1\r\nHost: x\r\n", ""},
		{"half a body", Limits{ReadHeader: long, Read: short, Idle: long}, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n{", "HTTP/1.1 400 "},
		{"nothing more", Limits{ReadHeader: long, Read: long, Idle: short}, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, nil, func(config *Config) {
					l := &config.Limits
					l.ReadHeader, l.Read, l.Idle = c.limits.ReadHeader, c.limits.Read, c.limits.Idle
				})
				on, _ := serveInMemory(t, s)
				var slow []net.Conn
				for range 20 {
					conn, err := on.Dial()
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					conn.SetDeadline(time.Now().Add(patience))
					fmt.Fprint(conn, c.half)
					slow = append(slow, conn)
				}
				good := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return on.DialContext(ctx) }}}
				if r, err := good.Post("http://127.0.0.1/v1/check", "application/json", strings.NewReader(searchBody)); err != nil || r.StatusCode != 200 {
					t.Errorf("a good client among slow ones: %v, %v", r, err)
				} else {
					r.Body.Close()
				}
				begun := time.Now()
				for i, conn := range slow {
					b, err := io.ReadAll(conn)
					if err != nil || !strings.HasPrefix(string(b), c.answer) {
						t.Fatalf("slow client %d: got %q, %v; want %q", i+1, b, err, c.answer)
					}
					if took := time.Since(begun); took < short || took >= short+deadlineSlack {
						t.Fatalf("slow client %d: cut off after %v, want %v", i+1, took, short)
					}
				}
			})
		})
	}
}

// TestUnreadAnswersAreCutOff: a client that sends requests and reads no answer loses its
// connection.
func TestUnreadAnswersAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const short, long = time.Second, 2 * patience
		s, _ := newServer(t, nil, func(config *Config) {
			l := &config.Limits
			l.ReadHeader, l.Read, l.Idle = long, long, long
			l.Write = short
		})
		on, _ := serveInMemory(t, s)
		deaf, err := on.Dial()
		must.Do(t, err)
		defer deaf.Close()
		const requests = 1000 // whose answers are more than the connection holds
		fmt.Fprint(deaf, strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", requests))
		time.Sleep(short - 1)
		synctest.Wait()
		if n := s.main.socket.Conns(); n != 1 {
			t.Errorf("%d connections before the write timeout, want 1", n)
		}
		time.Sleep(deadlineSlack)
		synctest.Wait()
		if n := s.main.socket.Conns(); n != 0 {
			t.Errorf("%d connections after the write timeout, want none", n)
		}
	})
}

// TestHugeHeaderIsRejected: a header of 64 KiB gets 431.
func TestHugeHeaderIsRejected(t *testing.T) {
	t.Parallel() // net/http waits half a second before it closes
	s, _ := newServer(t, nil)
	start(t, s)
	c := dial(t, s)
	go fmt.Fprintf(c, "GET /livez HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 431 {
		t.Errorf("a header of 64 KiB: %v, %v; want 431", r, err)
	}
}

// halfSent sends the header of a request to path that announces length bytes, and sent
// of them.
func halfSent(t *testing.T, s *Server, path string, length, sent int) net.Conn {
	t.Helper()
	c := dial(t, s)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, length, strings.Repeat(" ", sent))
	return c
}

// statusOf reads an answer and returns its status.
func statusOf(t *testing.T, c net.Conn) int {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

// bodied are the paths that read a body.
var bodied = []string{"/v1/check", "/v1/checks", "/v1/peek", "/v1/count", "/v1/record", "/v1/refund", "/v1/reserve", "/v1/settle", "/v1/release", "/v1/extend", "/v1/block"}

// TestBodiesAreBounded: a body that is too long by its Content-Length is rejected before
// a byte of it arrives, and so is one of a caller without the token, or of a reset. Another call that
// takes no body is answered then, too.
func TestBodiesAreBounded(t *testing.T) {
	never := func(c *Config) { c.Limits.Read = 10 * patience } // no answer may wait for the body
	open, _ := newServer(t, nil, never)
	start(t, open)
	closed, _ := newServer(t, nil, never, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
	start(t, closed)
	for _, path := range bodied {
		if got := statusOf(t, halfSent(t, open, path, httpapi.MaxBody+1, 0)); got != 400 {
			t.Errorf("%s, 64 KiB and a byte: status %d, want 400", path, got)
		}
		if got := statusOf(t, halfSent(t, closed, path, httpapi.MaxBody, 0)); got != 401 {
			t.Errorf("%s, no token: status %d, want 401", path, got)
		}
		if got := statusOf(t, halfSent(t, open, path+"-", httpapi.MaxBody, 0)); got != 404 {
			t.Errorf("%s-: status %d, want 404", path, got)
		}
	}
	for call, want := range map[string]int{"GET /gate/search?ip=1": 204, "GET /livez": 200, "GET /v1/policies": 200, "POST /v1/reload": 409, "DELETE /v1/keys/search?ip=1": 400} {
		c := dial(t, open)
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", call)
		if got := statusOf(t, c); got != want {
			t.Errorf("%s with a body that does not come: status %d, want %d", call, got, want)
		}
	}
}

// awaitBodies waits until n long bodies are being read.
func awaitBodies(t *testing.T, s *Server, n int64) {
	t.Helper()
	must.Await(t, fmt.Sprint(n, " long bodies are being read"), func() bool { return s.api.Bodies.InFlight.Load() == n })
}

// TestLongBodiesInFlightAreBounded: few long bodies are read at a time, so that they take
// little memory together. Short bodies are not bounded.
func TestLongBodiesInFlightAreBounded(t *testing.T) {
	const places = 3
	s, _ := newServer(t, nil, func(c *Config) { c.Limits.Read = 10 * patience })
	s.api.Bodies = calls.NewCapacity(places)
	start(t, s)
	var slow []net.Conn
	for i := range places {
		slow = append(slow, halfSent(t, s, bodied[i*3%len(bodied)], httpapi.MaxBody, httpapi.MaxBody-1))
	}
	awaitBodies(t, s, places)
	for _, path := range bodied {
		if got := statusOf(t, halfSent(t, s, path, httpapi.MaxBody, httpapi.MaxBody-1)); got != 503 {
			t.Errorf("%s, one long body too many: status %d, want 503", path, got)
		}
	}
	if r, body, err := checkOver(s, searchBody); err != nil || r.StatusCode != 200 {
		t.Errorf("a short body: %v, %s", err, body)
	}
	for _, c := range slow {
		c.Close()
	}
	awaitBodies(t, s, 0)
	if r, body, err := checkOver(s, searchBody+strings.Repeat(" ", httpapi.MaxBody-len(searchBody))); err != nil || r.StatusCode != 200 {
		t.Errorf("a long body when there is a place again: %v, %s", err, body)
	}
}
