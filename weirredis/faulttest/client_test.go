package faulttest

import (
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// A client is one of the two that weirredis has adapters for. Its own timeouts
// are set so long that only contexts can end a call in time.
type client struct {
	name string
	open func(t testing.TB, to target) weirredis.Conn
}

// target is what a client connects to.
type target struct {
	addrs    []string // of a server, the nodes of a Cluster, or Sentinels
	cluster  bool
	sentinel bool
	pool     int // connections at most, where the client has a pool; 0 = its default
}

var clients = []client{{"rueidis", openRueidis}}

// aeon outlasts every test.
const aeon = 10 * time.Minute

// at is the target of one server, or of the proxy in front of it.
func at(addr string) target { return target{addrs: []string{addr}} }

func openRueidis(t testing.TB, to target) weirredis.Conn {
	t.Helper()
	o := rueidis.ClientOption{InitAddress: to.addrs, ConnWriteTimeout: aeon, Dialer: net.Dialer{Timeout: 5 * time.Second}}
	if to.sentinel {
		o.Sentinel.MasterSet = redistest.SentinelName
	}
	c, err := rueidisconn.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
