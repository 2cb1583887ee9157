//go:build linux

package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// dialFrom connects from an address of this machine.
func dialFrom(from, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.Dial("tcp", to)
	if err == nil {
		c.SetDeadline(time.Now().Add(patience))
	}
	return c, err
}

// strangers fill the slots of a listener from 127.0.0.1, and reconnect when they are
// disconnected, until the test ends.
func strangers(t *testing.T, to, request string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all, first sync.WaitGroup
	for range n {
		first.Add(1)
		all.Go(func() {
			connected := sync.OnceFunc(first.Done)
			defer connected()
			for ctx.Err() == nil {
				c, err := dialFrom("127.0.0.1", to)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				io.WriteString(c, request)
				connected()
				io.Copy(io.Discard, c)
				stop()
				c.Close()
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond): // 120 of them still come more than once a millisecond
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	first.Wait()
}

// Strangers from one address hold as many connections as they get on every listener. They
// send nothing, half a request, or a request that is rejected. Callers and probes from
// another address are answered, and so are probes from the strangers' address.
func TestStrangersDoNotTakeTheSlots(t *testing.T) {
	const slots = 40
	for name, says := range map[string]string{
		"silent":   "",
		"half":     "POST /v1/check HTTP/1.1\r\nHost: x\r\n",
		"rejected": "GET /v1/policies HTTP/1.1\r\nHost: x\r\n\r\n",
		"probing":  "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"redis":    "*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\n",
		"http/2":   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newServer(t, nil, withRESP, withGRPC(t), func(c *Config) {
				c.Auth.Token, c.Limits.Conns = secret(t, tokenWord), slots
			})
			start(t, s)
			for _, to := range []string{s.Addr(), s.RESPAddr(), s.GRPCAddr()} {
				strangers(t, to, says, 3*slots)
			}
			for range 3 {
				answersHonest(t, s)
			}
		})
	}
}

// answersHonest sends a request of every kind from 127.0.0.2 and wants its answer.
func answersHonest(t *testing.T, s *Server) {
	t.Helper()
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/v1/policies": 200} {
		c, err := dialFrom("127.0.0.2", s.Addr())
		if got := talkTo(t, c, err).get(path, "Authorization: Bearer "+tokenWord+"\r\n"); got != want {
			t.Errorf("GET %s: status %d, want %d", path, got, want)
		}
		c.Close()
	}
	c, err := dialFrom("127.0.0.2", s.RESPAddr())
	redis := talkTo(t, c, err)
	if got := redis.say("AUTH " + tokenWord); got != "+OK\r\n" {
		t.Errorf("AUTH: %q", got)
	}
	if got := redis.say("WEIR.PEEK search ip=1"); !strings.HasPrefix(got, "*9") {
		t.Errorf("WEIR.PEEK: %q", got)
	}
	c.Close()
	proxy := proxyFrom(t, s, "127.0.0.2")
	defer proxy.Close()
	if _, err := rateLimit(t, proxy, tokenWord, "nothing", "user=a"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := grpc_health_v1.NewHealthClient(proxy).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
}

// A listener with callers in all slots answers probes, and other callers get 503 until a
// caller leaves. Its strangers do not change that.
func TestFullListenerAnswersProbes(t *testing.T) {
	for _, token := range []*listen.Secret{nil, secret(t, tokenWord)} {
		s, _ := newServer(t, nil, func(c *Config) { c.Auth.Token, c.Limits.Conns = token, 4 })
		start(t, s)
		call := func(path string) (talk, int) {
			c := talkTo(t, dial(t, s), nil)
			return c, c.get(path, "Authorization: Bearer "+tokenWord+"\r\n")
		}
		var first talk
		for range 4 {
			c, got := call("/v1/policies")
			if first = c; got != 200 {
				t.Fatalf("a caller: status %d", got)
			}
		}
		if _, got := call("/v1/policies"); got != 503 {
			t.Errorf("one caller more: status %d, want 503", got)
		}
		if token != nil {
			strangers(t, s.Addr(), "", 100)
		}
		for _, path := range []string{"/livez", "/readyz"} {
			c, err := dialFrom("127.0.0.2", s.Addr())
			if got := talkTo(t, c, err).get(path, ""); got != 200 {
				t.Errorf("%s of a full listener: status %d", path, got)
			}
		}
		first.Close()
		if token == nil {
			must.Await(t, "another caller is served", func() bool {
				_, got := call("/v1/policies")
				return got == 200
			})
		}
	}
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Limits.Conns = 1 })
	start(t, s)
	respClient(t, s).wants(t, "PING", "+PONG")
	respClient(t, s).wants(t, "PING", "-ERR max number of clients reached")
}

// A connection without credentials is closed after a while, and even if it sends health checks
// or wrong passwords. A connection that has sent the token stays.
func TestConnectionsWithoutCredentialsAreClosed(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t, nil, withRESP, withGRPC(t), func(c *Config) {
		c.Auth.Token = secret(t, tokenWord)
		c.Limits.Prove, c.Limits.ReadHeader = 300*time.Millisecond, patience
	})
	start(t, s)
	shown := "Authorization: Bearer " + tokenWord + "\r\n"
	var caller talk
	must.Await(t, "a connection is admitted in time, also on a busy machine", func() bool {
		c, err := net.Dial("tcp", s.Addr())
		caller = talkTo(t, c, err)
		return caller.get("/v1/policies", shown) == 200
	})
	var ended sync.WaitGroup
	for name, to := range map[string]string{"HTTP": s.Addr(), "RESP": s.RESPAddr(), "gRPC": s.GRPCAddr()} {
		c, err := net.Dial("tcp", to)
		silent := talkTo(t, c, err)
		ended.Go(func() {
			if _, err := io.Copy(io.Discard, silent.in); isTimeout(err) {
				t.Errorf("%s: a silent connection stays", name)
			}
		})
	}
	slow := respClient(t, s)
	ended.Go(func() {
		for slow.say("AUTH wrong") != "" {
			time.Sleep(10 * time.Millisecond)
		}
	})
	proxy := proxyOf(t, s, nil)
	ended.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for changed := false; !changed; {
			grpc_health_v1.NewHealthClient(proxy).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
			soon, stop := context.WithTimeout(ctx, 10*time.Millisecond)
			changed = proxy.GetState() != connectivity.Ready || proxy.WaitForStateChange(soon, connectivity.Ready)
			stop()
			if ctx.Err() != nil {
				t.Error("a connection with health checks only stays")
				return
			}
		}
	})
	ended.Wait()
	if got := caller.get("/v1/policies", shown); got != 200 {
		t.Errorf("a caller that stays connected: status %d", got)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// The answer to a stranger ends its connection, after a rejection and after a probe.
func TestAnswersToStrangersEndTheConnection(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
	start(t, s)
	for path, want := range map[string]int{"/v1/policies": 401, "/gate/search?ip=1": 401, "/metrics": 401, "/nothing": 401, "/livez": 200} {
		c := talkTo(t, dial(t, s), nil)
		if got := c.get(path, ""); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
		if got := c.get(path, ""); got != 0 {
			t.Errorf("%s again: status %d, want the end of the connection", path, got)
		}
	}
	c := talkTo(t, dial(t, s), nil)
	for _, path := range []string{"/v1/policies", "/livez", "/livez"} {
		if got := c.get(path, "Authorization: Bearer "+tokenWord+"\r\n"); got != 200 {
			t.Errorf("%s of a caller: status %d", path, got)
		}
	}
}

// Before AUTH a Redis client can send 2 KiB. After AUTH, even in the same packet, the
// usual bounds apply.
func TestRedisClientsSendAtMost2KiBBeforeAUTH(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
	start(t, s)
	for name, text := range map[string]string{
		"half a command": "*2\r\n$4\r\nAUTH\r\n$60000\r\n" + strings.Repeat("x", 3000),
		"a line":         strings.Repeat("x", 3000),
		"commands":       strings.Repeat("AUTH wrong\r\n", 300),
	} {
		c, err := net.Dial("tcp", s.RESPAddr())
		client := talkTo(t, c, err)
		go io.WriteString(client, text)
		got, err := io.ReadAll(client.in)
		if !strings.Contains(string(got), "-ERR Protocol error: 2 KiB were sent before the right password") && err == nil {
			t.Errorf("%s: %.200q, %v; want an error", name, got, err)
		}
	}
	c, err := net.Dial("tcp", s.RESPAddr())
	client := talkTo(t, c, err)
	fmt.Fprintf(client, "AUTH %s\r\n%s", tokenWord, strings.Repeat("PING\r\n", 5000))
	client.in = bufio.NewReader(io.LimitReader(client, int64(len("+OK\r\n")+5000*len("+PONG\r\n"))))
	if got, err := io.ReadAll(client.in); strings.Count(string(got), "+PONG\r\n") != 5000 {
		t.Errorf("a pipeline behind AUTH: %.200q, %v", got, err)
	}
}

// On a listener without authentication all clients of this machine are one address, and
// may take all slots. --max-connections-per-address applies there too.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	for _, c := range []struct {
		set, want int
		guards    httpapi.Auth
	}{{0, 20, httpapi.Auth{}}, {3, 3, httpapi.Auth{}}, {0, 16, httpapi.Auth{Token: secret(t, tokenWord)}}, {3, 3, httpapi.Auth{Token: secret(t, tokenWord)}}} {
		s, _ := newServer(t, nil, func(config *Config) {
			config.Auth, config.Limits.PerAddress, config.Limits.Conns = c.guards, c.set, 20
			config.Limits.ReadHeader, config.Limits.Prove = 2*patience, 2*patience // closes none by its age
		})
		start(t, s)
		const clients = 20
		var closed atomic.Int64
		for range clients {
			c := talkTo(t, dial(t, s), nil)
			fmt.Fprint(c, "GET /livez HTTP/1.1\r\n")
			go func() {
				if _, err := c.in.ReadByte(); !isTimeout(err) {
					closed.Add(1)
				}
			}()
		}
		must.Await(t, "all are held or closed", func() bool { return s.main.socket.Conns()+int(closed.Load()) == clients })
		if held := s.main.socket.Conns(); held != c.want || closed.Load() != int64(clients-c.want) {
			t.Errorf("--max-connections-per-address %d, token %t: one address holds %d connections and %d are closed, want %d of %d", c.set, c.guards.Token != nil, held, closed.Load(), c.want, clients)
		}
	}
}

// proxyFrom returns a client of the gRPC listener that connects from an address.
func proxyFrom(t *testing.T, s *Server, from string) *grpc.ClientConn {
	t.Helper()
	clientConn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return dialFrom(from, s.GRPCAddr()) }))
	if err != nil {
		t.Fatal(err)
	}
	return clientConn
}
