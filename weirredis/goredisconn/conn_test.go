package goredisconn_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/goredisconn"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// conn returns a connection to the server at addr through a client, which ends with the test.
func conn(t *testing.T, o *redis.Options) *goredisconn.Conn {
	t.Helper()
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	c, err := goredisconn.New(client)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	redistest.Conformance(t, conn(t, &redis.Options{Addr: redistest.Shared(t).Addr}), 1_000, 2)
}

func TestNewRejectsClientsThatMoveKeys(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	_, err := goredisconn.New(ring)
	if err == nil || !strings.Contains(err.Error(), "NewFailoverClient") {
		t.Errorf("a Ring: got %v, want an error with the supported clients", err)
	}
}

func TestClusterClientIsACluster(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	defer cluster.Close()
	c, err := goredisconn.New(cluster)
	if err != nil || !c.Clustered() || c.String() != "127.0.0.1:1, 127.0.0.1:2" {
		t.Errorf("got %v, clustered=%v, %v", c, c.Clustered(), err)
	}
}

// deafServer accepts connections, reads a command that runs a script, and closes the
// connection without a reply, like a server that dies after its decision.
func deafServer(t *testing.T) (addr string, scripts *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	scripts = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 64<<10)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					if strings.Contains(strings.ToLower(string(b[:n])), "evalsha") {
						scripts.Add(1)
						return
					}
					for range strings.Count(string(b[:n]), "*") { // the client's first commands
						io.WriteString(c, "-ERR unknown command\r\n")
					}
				}
			}()
		}
	}()
	return l.Addr().String(), scripts
}

// TestLostDecisionsAreNotRetried: a decision without its reply is not sent again, for any
// MaxRetries of the client.
func TestLostDecisionsAreNotRetried(t *testing.T) {
	addr, scripts := deafServer(t)
	engine, err := weirredis.New(conn(t, &redis.Options{Addr: addr, MaxRetries: 5, Protocol: 2, DisableIdentity: true}))
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 5, Window: time.Minute}}}, weir.WithEngine(engine))
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Allow(context.Background(), weir.K())
	if !errors.Is(err, weir.ErrOutcomeUnknown) || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v, want ErrOutcomeUnknown that names %s", err, addr)
	}
	if n := scripts.Load(); n != 1 {
		t.Errorf("the script was sent %d times, want once", n)
	}
}

// TestReturnsWithItsContext: go-redis waits until its ReadTimeout; callers return at their
// deadlines.
func TestReturnsWithItsContext(t *testing.T) {
	server := redistest.Start(t)
	c := conn(t, &redis.Options{Addr: server.Addr, ReadTimeout: time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	server.Freeze(t)
	defer server.Thaw(t)
	_, err := c.Eval(ctx, &weirredis.Script{Text: "return ''", SHA1: "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"}, nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

// TestMissingScriptIsSentAgain: after NOSCRIPT the text of the script is sent.
func TestMissingScriptIsSentAgain(t *testing.T) {
	c := conn(t, &redis.Options{Addr: redistest.Shared(t).Addr})
	const sum = "8d3a2a0c2b9ff1b5fe34b1a2a4d4a0a0a0a0a0a0" // no script on the server has it
	text, err := c.Eval(context.Background(), &weirredis.Script{Text: "return 'x' .. ARGV[1]", SHA1: sum}, []string{"k"}, []string{"\x00"})
	if text != "x\x00" || err != nil {
		t.Errorf("got %q, %v, want the script's reply", text, err)
	}
}
