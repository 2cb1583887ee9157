package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy"
)

// BenchmarkCheck compares POST /v1/check with a net/http handler that reads the
// same body and writes an answer of the same length, and BenchmarkGate a gate
// with a handler that answers 204. Both sides are asked over loopback
// connections by the same client, in turns; the metric is the median of the
// rounds' ratios. The goals are 1.5 and 1.25.
//
//	go test -run xxx -bench . -benchtime 20000x ./internal/server
func BenchmarkCheck(b *testing.B) {
	body := `{"policy":"push","key":{"teacher":"42"},"n":1}`
	request := fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	var length int
	empty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(length))
		w.Write(make([]byte, length))
	})
	s := benchServer(b)
	length = len(ask(s, "POST", "/v1/check", body).body)
	compare(b, request, empty, s.Handler())
}

func BenchmarkGate(b *testing.B) {
	empty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	compare(b, "GET /gate/push?teacher=42 HTTP/1.1\r\nHost: weir\r\n\r\n", empty, benchServer(b).Handler())
}

// BenchmarkHandlers is what Weir adds: the handlers alone, without net/http.
func BenchmarkHandlers(b *testing.B) {
	s := benchServer(b)
	h := s.Handler()
	for _, c := range []struct{ name, method, target, body string }{
		{"check", "POST", "/v1/check", `{"policy":"push","key":{"teacher":"42"},"n":1}`},
		{"gate", "GET", "/gate/push?teacher=42", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest(c.method, c.target, nil)
			body := strings.NewReader(c.body)
			r.Body = io.NopCloser(body)
			w := discard{}
			b.ReportAllocs()
			for b.Loop() {
				clear(w)
				body.Reset(c.body)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// discard is a ResponseWriter that keeps only the header.
type discard http.Header

func (d discard) Header() http.Header         { return http.Header(d) }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func benchServer(b *testing.B) *Server {
	b.Helper()
	s, err := New(Config{Policies: &policy.File{Policies: []*policy.Policy{{Policy: weir.Policy{Name: "push", Limits: []weir.Limit{
		{Name: "limit", Max: weir.MaxUnits, Window: 10 * time.Millisecond, By: []string{"teacher"}}}}}}}})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// compare reports how much longer ours takes than empty for the same request.
func compare(b *testing.B, request string, empty, ours http.Handler) {
	const round = 200
	clients := []*client{newClient(b, empty), newClient(b, ours)}
	for _, c := range clients {
		c.ask(b, request, round)
	}
	var ratios []float64
	b.ResetTimer()
	for i := 0; i < b.N; i += 2 * round {
		base := clients[0].ask(b, request, round)
		ratios = append(ratios, float64(clients[1].ask(b, request, round))/float64(base))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}

// client is one connection to a server of its own.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func newClient(b *testing.B, h http.Handler) *client {
	b.Helper()
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &client{conn, bufio.NewReader(conn)}
}

// ask sends the request n times, one after the other. It looks at no more of the
// answers than where they end: the client's work is not what is measured.
func (c *client) ask(b *testing.B, request string, n int) time.Duration {
	began := time.Now()
	for range n {
		if _, err := io.WriteString(c.conn, request); err != nil {
			b.Fatal(err)
		}
		if err := c.skip(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}

// skip reads one answer that grants.
func (c *client) skip() error {
	length := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 2")) {
			return fmt.Errorf("answer %s", line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			_, err := c.in.Discard(length)
			return err
		}
	}
}
