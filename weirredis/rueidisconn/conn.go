// Package rueidisconn lets weirredis run on github.com/redis/rueidis, which
// pipelines concurrent calls by itself.
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
	scripts sync.Map // *weirredis.Script to *rueidis.Lua
}

const (
	// clusterRefresh is how often a Cluster is asked who has which slots. A client
	// notices a connection that ends, but not a primary that is silent and was
	// replaced.
	clusterRefresh = time.Second

	// sentinelRefresh is how often Sentinels are asked who the primary is. A
	// message that says so is sent once, and may be missed.
	sentinelRefresh = 5 * time.Second
)

// New connects. Of the options it changes three: one connection for each server,
// since more only split pipelines; no client-side cache; and no retries, since a
// decision whose answer was lost may have been counted. Where they do not say how
// often to look for a new primary (ClusterOption.ShardsRefreshInterval and
// Sentinel.TopologyRefreshInterval are 0), that is every second in a Cluster and
// every five seconds with Sentinels. What the options say of Sentinel and Cluster,
// TLS, user and password is obeyed. The error is a *weirredis.StoreError.
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
		return nil, &weirredis.StoreError{Address: c.address, Err: explain(err)}
	}
	c.client = client
	return c, nil
}

// Eval runs the script once at most. It returns when ctx is done.
func (c *Conn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	lua, ok := c.scripts.Load(s)
	if !ok {
		lua, _ = c.scripts.LoadOrStore(s, rueidis.NewLuaScript(s.Text))
	}
	if ctx.Done() != nil {
		ctx = undated{ctx}
	}
	text, err := lua.(*rueidis.Lua).Exec(ctx, c.client, keys, args).ToString()
	return text, explain(err)
}

// undated is a context that keeps its deadline for itself. Where rueidis knows one
// it waits for the connection until then, and looks at Done no more.
type undated struct{ context.Context }

// Deadline returns none.
func (undated) Deadline() (deadline time.Time, ok bool) { return deadline, false }

// explain tells the errors apart that a Conn must tell apart.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := rueidis.IsRedisErr(err); ok {
		return weirredis.ReplyError(refused.Error())
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, rueidis.ErrClosing) {
		return weirredis.UnsentError{Err: err}
	}
	return err
}

// Clustered reports whether the client speaks to a Redis Cluster.
func (c *Conn) Clustered() bool { return c.client.Mode() == rueidis.ClientModeCluster }

// String returns the addresses the client was given.
func (c *Conn) String() string { return c.address }

// Close closes the client.
func (c *Conn) Close() { c.client.Close() }
