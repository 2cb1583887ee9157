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
)

// held is an engine whose decisions wait until they are let go.
type held struct {
	weir.Engine
	arrived chan struct{}
	release chan struct{}
}

func newHeld() *held {
	return &held{weir.NewMemory(), make(chan struct{}, 100), make(chan struct{})}
}

func (h *held) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
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
	if r := ask(s, "GET", "/healthcheck", ""); r.status != 500 || r.body != "" {
		t.Errorf("/healthcheck while draining: status %d, %q; want 500 and nothing, as Envoy's reference has it", r.status, r.body)
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
	if err != nil || r.StatusCode != 200 {
		t.Errorf("a request while lingering: %v, %v, %s; want an answer", err, r, body)
	}
	s.main.socket.Close() // nothing to linger for any more
}

// Clients that keep their connections busy learn from an answer that they must
// leave, so that none of their requests meets a closed door.
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
	s.main.socket.Close() // nothing to linger for any more
	for i := range clients {
		if err := <-done; err != nil {
			t.Errorf("client %d lost a request: %v", i+1, err)
		}
	}
}

// hammer sends requests on c, one after the other, until an answer says that the
// connection will be closed. It reports on warm when ten were answered.
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

func TestDrainIsBounded(t *testing.T) {
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
		t.Errorf("Serve with a request that hangs: %v, want an error that says it was cut off", err)
	}
	if err := <-lost; err == nil || os.IsTimeout(err) {
		t.Errorf("a request that was cut off: %v, want the end of its connection", err)
	}
	close(e.release)
}
