package faulttest

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// A client is one of the two that weirredis has adapters for.
type client struct {
	name string
	dial func(to target) (conn weirredis.Conn, hangUp func(), err error)
}

// target is what a client connects to.
type target struct {
	addrs     []string // of a server, the nodes of a Cluster, or Sentinels
	cluster   bool
	sentinel  bool
	impatient bool // the client has the timeouts it has by default; else only contexts end a call in time
	pool      int  // connections at most, where the client has a pool; 0 = its default
}

var clients = []client{{"rueidis", dialRueidis}}

// aeon outlasts every test.
const aeon = 10 * time.Minute

// at is the target of one server, or of the proxy in front of it.
func at(addr string) target { return target{addrs: []string{addr}} }

// open connects until the test ends.
func (c client) open(t testing.TB, to target) weirredis.Conn {
	t.Helper()
	conn, hangUp, err := c.dial(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hangUp)
	return conn
}

func dialRueidis(to target) (weirredis.Conn, func(), error) {
	o := rueidis.ClientOption{InitAddress: to.addrs}
	if !to.impatient {
		o.ConnWriteTimeout = aeon
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
