package faulttest

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/goredisconn"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// A client is one of the two clients with an adapter in weirredis.
type client struct {
	name string
	dial func(to target) (conn weirredis.Conn, hangUp func(), err error)
}

// target is the address and kind of a store, with settings of the client.
type target struct {
	addrs     []string // of a server, the nodes of a Cluster, or Sentinels
	cluster   bool
	sentinel  bool
	impatient bool                        // the client keeps its default timeouts; otherwise only contexts end calls
	through   map[string]*redistest.Proxy // the proxy in front of an address; may be empty
	pool      int                         // most connections of a client with a pool; 0 = its default
}

var clients = []client{{"rueidis", dialRueidis}, {"goredis", dialGoredis}}

// aeon is longer than every test.
const aeon = 10 * time.Minute

// at is the target of one server, or of the proxy in front of it.
func at(addr string) target { return target{addrs: []string{addr}} }

// open connects until the test ends.
func (c client) open(t testing.TB, to target) weirredis.Conn {
	t.Helper()
	conn, hangUp, err := c.dial(to)
	must.Do(t, err)
	t.Cleanup(hangUp)
	return conn
}

func dialRueidis(to target) (weirredis.Conn, func(), error) {
	o := rueidis.ClientOption{InitAddress: to.addrs}
	if !to.impatient {
		o.ConnWriteTimeout = aeon
	}
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", to.route(addr))
	}
	if to.sentinel {
		o.Sentinel.MasterSet = redistest.SentinelName
	}
	c, err := rueidisconn.New(o)
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

func dialGoredis(to target) (weirredis.Conn, func(), error) {
	o := &redis.UniversalOptions{Addrs: to.addrs, PoolSize: to.pool, IsClusterMode: to.cluster}
	if !to.impatient {
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = aeon, aeon, aeon
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, to.route(addr))
	}
	if to.sentinel {
		o.MasterName = redistest.SentinelName
	}
	client := redis.NewUniversalClient(o)
	conn, err := goredisconn.New(client)
	if err != nil {
		return nil, nil, err
	}
	return conn, func() { client.Close() }, nil
}

// route returns the address to dial: that of the proxy, if there is one.
func (to target) route(addr string) string {
	if p := to.through[addr]; p != nil {
		return p.Addr
	}
	return addr
}
