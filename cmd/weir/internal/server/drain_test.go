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
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
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

// Requests in flight at shutdown get their whole answers.
func TestDrainAnswersRequestsInFlight(t *testing.T) {
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

// With Linger, the server serves requests after /readyz has reported 503.
func TestLingerServesAfterReadyzFails(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Limits.Linger = patience })
	stop := start(t, s)
	go stop()
	untilDraining(t, s)
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
