// Package rueidisconn connects weirredis through github.com/redis/rueidis, which
// pipelines concurrent calls. A program with a go-redis client can use goredisconn.
package rueidisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/weirredis"
)

// Conn is a weirredis.Conn on a rueidis client of its own.
type Conn struct {
	client  rueidis.Client
	address string
	scripts sync.Map // *rueidis.Lua by *weirredis.Script
}

const (
	// clusterRefresh is the interval at which the slots of a Cluster are reloaded. A
	// client notices a connection that ends, but not a silent primary that was replaced.
	clusterRefresh = time.Second

	// sentinelRefresh is the interval at which the primary is read from the Sentinels.
	// They publish a new primary only once, and that message can be lost.
	sentinelRefresh = 5 * time.Second
)

// New connects. It changes three options: one connection for each server, because more
// only split pipelines; no client-side cache; and no retries, because a decision with a
// lost reply may have been counted. If ClusterOption.ShardsRefreshInterval is 0, it
// becomes one second; if Sentinel.TopologyRefreshInterval is 0, five seconds. All other
// options stay, such as Sentinel, TLS, user and password. The error is a
// *weirredis.StoreError.
func New(o rueidis.ClientOption) (*Conn, error) {
	o.PipelineMultiplex = -1
	o.DisableCache = true
	o.DisableRetry = true
	if o.ClusterOption.ShardsRefreshInterval == 0 {
		o.ClusterOption.ShardsRefreshInterval = clusterRefresh
	}
	if o.Sentinel.TopologyRefreshInterval == 0 {
		o.Sentinel.TopologyRefreshInterval = sentinelRefresh
	}
	c := &Conn{address: strings.Join(o.InitAddress, ", ")}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, &weirredis.StoreError{Address: c.address, Err: classify(err)}
	}
	c.client = client
	return c, nil
}

// Eval runs the script at most once. It returns when ctx is done.
func (c *Conn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	lua, ok := c.scripts.Load(s)
	if !ok {
		lua, _ = c.scripts.LoadOrStore(s, rueidis.NewLuaScript(s.Text))
	}
	if ctx.Done() != nil {
		ctx = noDeadline{ctx}
	}
	text, err := lua.(*rueidis.Lua).Exec(ctx, c.client, keys, args).ToString()
	return text, classify(err)
}

// noDeadline is a context that hides its deadline. With a deadline rueidis waits for the
// connection until then and ignores Done.
type noDeadline struct{ context.Context }

// Deadline returns none.
func (noDeadline) Deadline() (deadline time.Time, ok bool) { return deadline, false }

// classify returns the error in the form that weirredis.Conn demands.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if rejected, ok := rueidis.IsRedisErr(err); ok {
		return weirredis.ReplyError(rejected.Error())
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, rueidis.ErrClosing) {
		return weirredis.UnsentError{Err: err}
	}
	return err
}

// Clustered reports whether the client is connected to a Redis Cluster.
func (c *Conn) Clustered() bool { return c.client.Mode() == rueidis.ClientModeCluster }

// String returns the addresses of the options.
func (c *Conn) String() string { return c.address }

// Close closes the client.
func (c *Conn) Close() { c.client.Close() }
