package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Clients that never finish their requests lose their connections, and the
// others are served meanwhile.
func TestSlowLoris(t *testing.T) {
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
			t.Parallel()
			s, _ := newServer(t, nil, func(config *Config) {
				config.Limits = c.limits
				config.Limits.Linger = -1
			})
			start(t, s)
			var slow []net.Conn
			for range 20 {
				conn := dial(t, s)
				fmt.Fprint(conn, c.half)
				slow = append(slow, conn)
			}
			if r, body, err := checkOver(s, searchBody); err != nil || r.StatusCode != 200 {
				t.Errorf("a good client among slow ones: %v, %s", err, body)
			}
			for i, conn := range slow {
				b, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(b), c.answer) {
					t.Fatalf("slow client %d: got %q, %v; want %q and the end of the connection within %v", i+1, b, err, c.answer, patience)
				}
			}
		})
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
