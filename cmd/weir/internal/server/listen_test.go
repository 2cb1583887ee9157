package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait of a test; each should take far less.
const patience = 20 * time.Second

// start serves s until the test ends; stop ends it and returns what Serve returned.
func start(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	if s.main.socket == nil {
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
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

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happened: %s", what)
		}
	}
}

// untilDraining waits until the server drains.
func untilDraining(t *testing.T, s *Server) {
	t.Helper()
	eventually(t, "the server drains", s.api.Draining.Load)
}

const searchBody = `{"policy":"search","key":{"ip":"1"}}`

func TestServeOverTheNetwork(t *testing.T) {
	s, _ := newServer(t, nil)
	if got := s.Addr(); got != "127.0.0.1:0" {
		t.Errorf("Addr before Listen = %s, want the configured address", got)
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
		t.Errorf("want the spelling of the draft for the fields on the wire: %v\n%s", err, raw)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
	if _, _, err := checkOver(s, searchBody); err == nil {
		t.Error("a stopped server still answers")
	}
}
