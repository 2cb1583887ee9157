package goredisconn_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
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
	got, err := goredisconn.New(client)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestConformance(t *testing.T) {
	redistest.Conformance(t, conn(t, &redis.Options{Addr: redistest.Shared(t).Addr}), 1_000, 2)
}

func TestConformanceOfEachVersion(t *testing.T) {
	redistest.ShortConformance(t, func(t *testing.T, s *redistest.Server) weirredis.Conn { return conn(t, &redis.Options{Addr: s.Addr}) })
}

func TestNewRejectsClientsThatMoveKeys(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	_, err := goredisconn.New(ring)
	if err == nil || !strings.Contains(err.Error(), "NewFailoverClient") {
		t.Errorf("a Ring: got %v, want an error with the supported clients", err)
	}
}

func TestNewRejectsNilClients(t *testing.T) {
	for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		if _, err := goredisconn.New(client); err == nil || !strings.Contains(err.Error(), "redis.NewClient") {
			t.Errorf("%T: got %v, want an error with the next step", client, err)
		}
	}
}

func TestClusterClientIsACluster(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	defer cluster.Close()
	c, err := goredisconn.New(cluster)
	if err != nil {
		t.Fatal(err)
	}
	clustered, err := c.Clustered(t.Context())
	if err != nil || !clustered || c.String() != "127.0.0.1:1, 127.0.0.1:2" {
		t.Errorf("got %v, clustered=%v, %v", c, clustered, err)
	}
}

// TestLostDecisionsAreNotRetried: a decision without its reply is not sent again, for any
// MaxRetries of the client.
func TestLostDecisionsAreNotRetried(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
	engine, err := weirredis.New(conn(t, &redis.Options{Addr: proxy.Addr, MaxRetries: 5}))
	if err != nil {
		t.Fatal(err)
	}
	lost := weir.Policy{Name: "lost", Limits: []weir.Limit{{Name: "l", Max: 5, Window: time.Minute}}}
	l, err := weir.New(lost, weir.WithEngine(engine))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Allow(t.Context(), weir.K()); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	proxy.CutAfter(redistest.Replies, 0)
	if _, err := l.Allow(t.Context(), weir.K()); !errors.Is(err, weir.ErrOutcomeUnknown) || !strings.Contains(err.Error(), proxy.Addr) {
		t.Errorf("got %v, want ErrOutcomeUnknown that names %s", err, proxy.Addr)
	}
	proxy.Heal()
	if n, err := l.Count(t.Context(), weir.K(), "l", time.Minute); n != 2 || err != nil {
		t.Errorf("%d units count, %v, want 2", n, err)
	}
}

// TestZeroConn: every call of a zero or nil Conn is an error that names the next step.
func TestZeroConn(t *testing.T) {
	for _, c := range []*goredisconn.Conn{nil, new(goredisconn.Conn)} {
		_, err := c.Eval(t.Context(), &weirredis.Script{}, nil, nil)
		_, clustered := c.Clustered(t.Context())
		for _, err := range []error{err, clustered} {
			if !errors.Is(err, engine.ErrInput) || !strings.Contains(err.Error(), "goredisconn.New") {
				t.Errorf("the error is %v", err)
			}
		}
		if c.String() != "" {
			t.Errorf("the address is %q", c.String())
		}
	}
	e, err := weirredis.New(new(goredisconn.Conn))
	if err != nil {
		t.Fatal(err)
	}
	rules := engine.Compile("p", engine.AllOrNothing, nil, []engine.Limit{{Name: "l", Max: 1, Window: 1e6}})
	calls := []engine.Call{{Rules: rules, N: 1}}
	if e.Do(t.Context(), calls); !errors.Is(calls[0].Err, engine.ErrInput) {
		t.Errorf("the error of an engine on it is %v", calls[0].Err)
	}
}
