package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

// patience bounds what a test waits for; nothing is expected to take long.
const patience = 20 * time.Second

// start serves s until the test ends; stop ends it and returns what Serve returned.
func start(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			t.Error("Serve did not return")
			return nil
		}
	})
	t.Cleanup(func() { stop() })
	return stop
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

func checkOver(s *Server, body string) (*http.Response, string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Post("http://"+s.Addr()+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r, string(b), err
}

// untilDraining waits until the server has been told to stop.
func untilDraining(t *testing.T, s *Server) {
	t.Helper()
	for end := time.Now().Add(patience); !s.draining.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server does not drain")
		}
	}
}

const searchBody = `{"policy":"search","key":{"ip":"1"}}`

func TestServeOverTheNetwork(t *testing.T) {
	s, _ := newServer(t, nil)
	if got := s.Addr(); got != "127.0.0.1:0" {
		t.Errorf("Addr before Listen = %s, want what was asked for", got)
	}
	stop := start(t, s)
	if strings.HasSuffix(s.Addr(), ":0") {
		t.Errorf("Addr after Listen = %s, want a real port", s.Addr())
	}
	r, body, err := checkOver(s, searchBody)
	if err != nil || r.StatusCode != 200 || !strings.HasPrefix(body, `{"allowed":true,`) {
		t.Errorf("check: %v, %v, %s", r, err, body)
	}
	c := dial(t, s)
	fmt.Fprintf(c, "GET /gate/search?ip=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	raw, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(raw), "\r\nRateLimit: \"search\";r=0;t=") || !strings.Contains(string(raw), "\r\nRateLimit-Policy: ") {
		t.Errorf("on the wire the fields are spelled as in the draft: %v\n%s", err, raw)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
	if _, _, err := checkOver(s, searchBody); err == nil {
		t.Error("a stopped server still answers")
	}
}

func TestListenOnATakenPort(t *testing.T) {
	s, _ := newServer(t, nil)
	start(t, s)
	second, _ := newServer(t, nil, func(c *Config) { c.Listen = s.Addr() })
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("a taken port: %v, want an error that says so", err)
	}
	if err := second.Serve(t.Context()); err == nil {
		t.Error("Serve on a taken port: no error")
	}
}

// held is an engine whose decisions wait until they are let go.
type held struct {
	weir.Engine
	arrived chan struct{}
	release chan struct{}
}

func newHeld() *held {
	return &held{weir.NewMemory(), make(chan struct{}, 100), make(chan struct{})}
}

func (h *held) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Ask) (weir.Decision, error) {
	h.arrived <- struct{}{}
	<-h.release
	return h.Engine.Decide(ctx, p, k, a)
}

// Requests under way when the server is told to stop are answered in full.
func TestDrain(t *testing.T) {
	const n = 8
	e := newHeld()
	s, _ := newServer(t, e)
	stop := start(t, s)
	answers := make(chan string, n)
	for range n {
		go func() {
			r, body, err := checkOver(s, searchBody)
			answers <- fmt.Sprintf("%v %v %v", err, r != nil && r.StatusCode == 200, strings.HasSuffix(body, "}\n"))
		}()
	}
	for range n {
		<-e.arrived
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	untilDraining(t, s)
	r := ask(s, "GET", "/readyz", "")
	if r.status != 503 || !strings.Contains(r.body, `"ready":false,"why":"draining`) {
		t.Errorf("/readyz while draining: status %d, %s; want 503", r.status, r.body)
	}
	if r := ask(s, "GET", "/livez", ""); r.status != 200 {
		t.Errorf("/livez while draining: status %d, want 200", r.status)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Serve returned %v with %d requests under way", err, n)
	default:
	}
	close(e.release)
	for i := range n {
		if got := <-answers; got != "<nil> true true" {
			t.Errorf("request %d under way: error, 200, whole body = %s; want <nil> true true", i+1, got)
		}
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
}

// With Linger, requests are taken after /readyz has said no.
func TestLinger(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Limits.Linger = patience })
	stop := start(t, s)
	go stop()
	untilDraining(t, s)
	r, body, err := checkOver(s, searchBody)
	if err != nil || r.StatusCode != 200 || !r.Close {
		t.Errorf("a request while lingering: %v, %v, %s; want an answer that closes the connection", err, r, body)
	}
	s.listener.Close() // nothing to linger for any more
}

func TestDrainIsBounded(t *testing.T) {
	e := newHeld()
	s, _ := newServer(t, e, func(c *Config) { c.Limits.Drain = 20 * time.Millisecond })
	stop := start(t, s)
	go checkOver(s, searchBody)
	<-e.arrived
	if err := stop(); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve with a request that hangs: %v, want an error that says it was cut off", err)
	}
	close(e.release)
}

// Clients that never finish their requests lose their connections, and the
// others are served meanwhile.
func TestSlowLoris(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Limits.ReadHeader, c.Limits.Read = 200*time.Millisecond, 400*time.Millisecond
	})
	start(t, s)
	var slow []net.Conn
	for i := range 40 {
		c := dial(t, s)
		half := "POST /v1/check HTTP/1.1\r\nHost: x\r\n"
		if i%2 == 0 {
			half += "Content-Length: 40\r\n\r\n{"
		}
		fmt.Fprint(c, half)
		slow = append(slow, c)
	}
	if r, body, err := checkOver(s, searchBody); err != nil || r.StatusCode != 200 {
		t.Errorf("a good client among slow ones: %v, %s", err, body)
	}
	for i, c := range slow {
		b, err := io.ReadAll(c)
		if err != nil {
			t.Fatalf("slow client %d was not cut off within %v: %v", i+1, patience, err)
		}
		if i%2 == 0 && !strings.Contains(string(b), "400 Bad Request") {
			t.Errorf("half a body: got %q, want 400", b)
		}
	}
}

func TestHugeHeader(t *testing.T) {
	s, _ := newServer(t, nil)
	start(t, s)
	c := dial(t, s)
	go fmt.Fprintf(c, "GET /livez HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 431 {
		t.Errorf("a header of 64 KiB: %v, %v; want 431", r, err)
	}
}

// Above the cap connections wait, and are served when others leave.
func TestConnectionCap(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Limits.Conns = 2 })
	start(t, s)
	request := "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
	var conns []net.Conn
	for range 3 {
		conns = append(conns, dial(t, s))
	}
	for i, c := range conns[:2] {
		fmt.Fprint(c, request)
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Fatalf("connection %d of at most 2: %v, %v", i+1, r, err)
		}
	}
	fmt.Fprint(conns[2], request)
	conns[2].SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conns[2].Read(make([]byte, 1)); err == nil {
		t.Errorf("the third of at most 2 connections was answered with %d bytes", n)
	}
	conns[0].Close()
	conns[2].SetReadDeadline(time.Now().Add(patience))
	if r, err := http.ReadResponse(bufio.NewReader(conns[2]), nil); err != nil || r.StatusCode != 200 {
		t.Errorf("the third once the first has left: %v, %v", r, err)
	}
}

// A listener at its cap can be closed: Accept does not wait for ever.
func TestCappedListenerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := capped(nowhere{}, 1)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			failed <- err
		}()
		synctest.Wait()
		l.Close()
		if err := <-failed; err == nil {
			t.Error("Accept at the cap returned no error after Close")
		}
		c.Close()
		c.Close() // gives its slot back once
	})
}

// nowhere is a listener whose connections lead nowhere.
type nowhere struct{}

func (nowhere) Accept() (net.Conn, error) { c, _ := net.Pipe(); return c, nil }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return nil }
