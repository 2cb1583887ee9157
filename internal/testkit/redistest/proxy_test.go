package redistest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// echo returns the address of a server that sends back what it gets.
func echo(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buffer := make([]byte, 1000)
				for {
					n, err := c.Read(buffer)
					if err != nil {
						return
					}
					io.WriteString(c, name+string(buffer[:n]))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// dial connects to the proxy. Each operation has the timeout patience.
func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// say sends text and reads an answer of n bytes, or what comes before the end.
func say(t *testing.T, c net.Conn, text string, n int) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	b := make([]byte, n)
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func TestProxyPassesEverything(t *testing.T) {
	c := dial(t, NewProxy(t, echo(t, "")))
	text := strings.Repeat("0123456789", 10_000)
	go io.WriteString(c, text)
	if got, err := say(t, c, "", len(text)); got != text {
		t.Errorf("got %d bytes, %v; want %d", len(got), err, len(text))
	}
}

func TestProxyCutsAtEachByte(t *testing.T) {
	p := NewProxy(t, echo(t, ""))
	const text = "abcdef"
	for n := range len(text) {
		p.CutAfter(Replies, n)
		if got, err := say(t, dial(t, p), text, len(text)); got != text[:n] || err == nil {
			t.Errorf("cut after %d: got %q and %v, want %q and an error", n, got, err, text[:n])
		}
		if got, err := say(t, dial(t, p), text, len(text)); got != text {
			t.Errorf("after the cut after %d: got %q and %v, want %q", n, got, err, text)
		}
	}
	p.CutAfter(Replies, len(text))
	c := dial(t, p)
	if got, err := say(t, c, text, len(text)); got != text {
		t.Errorf("cut behind the reply: got %q and %v, want %q", got, err, text)
	}
	if got, err := say(t, c, text, len(text)); got != "" || err == nil {
		t.Errorf("the next reply: got %q and %v, want nothing and an error", got, err)
	}
}

func TestProxyCutsRequests(t *testing.T) {
	p := NewProxy(t, echo(t, ""))
	p.CutAfter(Requests, 3)
	got, err := say(t, dial(t, p), "abcdef", 6)
	if len(got) > 3 || err == nil {
		t.Errorf("got %q and %v, want at most abc and an error", got, err)
	}
}

func TestProxySilence(t *testing.T) {
	p := NewProxy(t, echo(t, ""))
	c := dial(t, p)
	p.Silence()
	c.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := say(t, c, "abc", 3); err == nil {
		t.Errorf("a silent server answered %q", got)
	}
	p.Heal()
	c.SetDeadline(time.Now().Add(patience))
	if got, err := say(t, c, "", 3); got != "abc" {
		t.Errorf("after Heal: got %q and %v, want abc", got, err)
	}
}

func TestProxyLatencyAndTrickle(t *testing.T) {
	for _, c := range []struct {
		name        string
		fault       func(p *Proxy)
		least, most time.Duration // for six bytes to the server and back
	}{
		{"20 to 30 ms each way", func(p *Proxy) { p.Latency(20*time.Millisecond, 30*time.Millisecond) }, 40 * time.Millisecond, 60 * time.Millisecond},
		{"100 bytes a second", func(p *Proxy) { p.Trickle(100) }, 70 * time.Millisecond, 70 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &Proxy{faults: healthy, changed: make(chan struct{})}
			c.fault(p)
			client, toClient := net.Pipe()
			server, toServer := net.Pipe()
			var pumps sync.WaitGroup
			pumps.Go(func() { p.pump(toServer, toClient, Requests) })
			pumps.Go(func() { p.pump(toClient, toServer, Replies) })
			pumps.Go(func() { io.Copy(server, server) })
			begun := time.Now()
			got, err := say(t, client, "abcdef", 6)
			if took := time.Since(begun); got != "abcdef" || took < c.least || took > c.most {
				t.Errorf("%s: got %q and %v after %v, want abcdef after %v to %v", c.name, got, err, took, c.least, c.most)
			}
			client.Close()
			pumps.Wait()
		})
	}
}

func TestProxyCutAllAndTarget(t *testing.T) {
	p := NewProxy(t, echo(t, "1"))
	c := dial(t, p)
	if got, err := say(t, c, "a", 2); got != "1a" {
		t.Fatalf("got %q and %v, want 1a", got, err)
	}
	p.Target(echo(t, "2"))
	if got, err := say(t, c, "b", 2); got != "1b" {
		t.Errorf("an open connection stays: got %q and %v, want 1b", got, err)
	}
	p.CutAll()
	if got, err := say(t, c, "c", 2); err == nil {
		t.Errorf("after CutAll: got %q", got)
	}
	if got, err := say(t, dial(t, p), "d", 2); got != "2d" {
		t.Errorf("a new connection: got %q and %v, want 2d", got, err)
	}
}

func TestProxyRefuses(t *testing.T) {
	p := NewProxy(t, echo(t, ""))
	c := dial(t, p)
	p.Refuse()
	if got, err := say(t, c, "a", 1); err == nil {
		t.Errorf("the open connection answers %q", got)
	}
	if c, err := net.Dial("tcp", p.Addr); err == nil {
		c.Close()
		t.Error("a connection was accepted")
	}
	p.Accept(t)
	if got, err := say(t, dial(t, p), "b", 1); got != "b" {
		t.Errorf("after Accept: got %q and %v, want b", got, err)
	}
}
