// Package rueidisconn connects weirredis through github.com/redis/rueidis, which
// pipelines concurrent calls. A program with a go-redis client can use goredisconn.
package rueidisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirredis"
)

// Conn is a weirredis.Conn on a rueidis client of its own. Every call of the zero or nil Conn is an
// [engine.InputError].
type Conn struct {
	options rueidis.ClientOption
	address string
	scripts sync.Map                       // *rueidis.Lua by *weirredis.Script
	client  atomic.Pointer[rueidis.Client] // nil until the first attempt that succeeds

	mu      sync.Mutex // protects the following
	attempt *attempt   // the newest attempt to connect, or nil
	closed  bool
}

// attempt is an attempt to connect.
type attempt struct {
	ended   chan struct{} // closed at the end of the attempt; the following are set then
	err     error
	retryAt time.Time // the earliest instant of the next attempt
}

// retryPause is the time between an attempt to connect and the next one. Calls in between fail
// with the error of the last attempt.
const retryPause = 100 * time.Millisecond

const (
	// clusterRefresh is the interval at which the slots of a Cluster are reloaded. A
	// client notices a connection that ends, but not a silent primary that was replaced.
	clusterRefresh = time.Second

	// sentinelRefresh is the interval at which the primary is read from the Sentinels.
	// They publish a new primary only once, and that message can be lost.
	sentinelRefresh = 5 * time.Second
)

// errZero is the error of the zero and the nil Conn.
var errZero = weirredis.UnsentError{
	Err: engine.Input("request",
		"the zero or nil Conn has no client; make one with rueidisconn.New"),
}

// New connects. If the server is away, New returns a Conn all the same. Its calls fail with an
// UnsentError, and each tries to connect again, at most every 100 ms, until one succeeds.
//
// New returns an error only if waiting does not help: an option or a password is wrong, or a server
// other than Redis answers. It is a *weirredis.StoreError.
//
// New changes three options: one connection for each server, because more only split pipelines;
// no client-side cache; and no retries, because a decision with a lost reply may have been
// counted. If ClusterOption.ShardsRefreshInterval is 0, it becomes one second; if
// Sentinel.TopologyRefreshInterval is 0, five seconds. All other options stay, such as Sentinel,
// TLS, user and password. New and later attempts take Dialer.Timeout at most, for each address.
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
	c := &Conn{options: o, address: strings.Join(o.InitAddress, ", ")}
	if _, err := c.connected(context.Background()); err != nil && !isAway(err) {
		return nil, &weirredis.StoreError{Address: c.address, Err: err}
	}
	return c, nil
}

// connected returns the client. Without a client it waits for an attempt to connect, and starts one
// if none is in progress. After an error the call was not sent.
func (c *Conn) connected(ctx context.Context) (rueidis.Client, error) {
	if c == nil {
		return nil, errZero
	}
	if client := c.client.Load(); client != nil {
		return *client, nil
	}
	if !c.options.DisableRetry { // New sets it
		return nil, errZero
	}
	a, err := c.currentAttempt()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.ended:
	case <-ctx.Done():
		return nil, weirredis.UnsentError{Err: ctx.Err()}
	}
	if a.err != nil {
		return nil, a.err
	}
	return *c.client.Load(), nil
}

// currentAttempt returns the attempt to connect that is in progress or has just failed. If there
// is none, it starts one.
func (c *Conn) currentAttempt() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, weirredis.UnsentError{Err: rueidis.ErrClosing}
	}
	if a := c.attempt; a != nil && !a.mayRetry() {
		return a, nil
	}
	c.attempt = &attempt{ended: make(chan struct{})}
	go c.connect(c.attempt)
	return c.attempt, nil
}

// mayRetry reports whether the attempt has failed and its pause is over.
func (a *attempt) mayRetry() bool {
	select {
	case <-a.ended:
		return a.err != nil && !time.Now().Before(a.retryAt)
	default:
		return false
	}
}

// connect makes an attempt to connect. rueidis takes no context for it, so connect runs in a
// goroutine of its own, which a call can leave.
func (c *Conn) connect(a *attempt) {
	defer close(a.ended)
	client, err := rueidis.NewClient(c.options)
	if err != nil {
		a.err, a.retryAt = unsent(err), time.Now().Add(retryPause)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		client.Close()
	}
	c.client.Store(&client)
}

// unsent returns the error of an attempt to connect. No script was sent, so it is an UnsentError or
// the server's own error.
func unsent(err error) error {
	err = classify(err)
	if _, rejected := err.(weirredis.ReplyError); rejected {
		return err
	}
	return weirredis.UnsentError{Err: err}
}

// isAway reports whether a later attempt to connect may succeed without a change of the options:
// the server does not run, does not answer, or is not ready.
func isAway(err error) bool {
	if rejected, ok := errors.AsType[weirredis.ReplyError](err); ok {
		switch word, _, _ := strings.Cut(string(rejected), " "); word {
		case "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY":
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded)
}

// Eval runs the script at most once. It returns when ctx is done.
func (c *Conn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	client, err := c.connected(ctx)
	if err != nil {
		return "", err
	}
	lua, ok := c.scripts.Load(s)
	if !ok {
		lua, _ = c.scripts.LoadOrStore(s, rueidis.NewLuaScript(s.Text))
	}
	if ctx.Done() != nil {
		ctx = noDeadline{ctx}
	}
	text, err := lua.(*rueidis.Lua).Exec(ctx, client, keys, args).ToString()
	return text, classify(err)
}

// noDeadline is a context that hides its deadline. With a deadline rueidis waits for the
// connection until then and ignores Done.
type noDeadline struct{ context.Context }

// Deadline returns none.
func (noDeadline) Deadline() (deadline time.Time, ok bool) { return deadline, false }

// classify returns the error as the interface weirredis.Conn requires: a ReplyError, an
// UnsentError, or another error if the script may have run.
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

// Clustered reports whether the server belongs to a Redis Cluster. That is unknown before the first
// connection, so Clustered connects, and returns the error of that.
func (c *Conn) Clustered(ctx context.Context) (bool, error) {
	client, err := c.connected(ctx)
	if err != nil {
		return false, err
	}
	return client.Mode() == rueidis.ClientModeCluster, nil
}

// String returns the addresses of the options.
func (c *Conn) String() string {
	if c == nil {
		return ""
	}
	return c.address
}

// Close closes the client. It does not wait for an attempt to connect.
func (c *Conn) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if client := c.client.Load(); client != nil {
		(*client).Close()
	}
}
