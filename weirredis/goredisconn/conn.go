// Package goredisconn connects weirredis through an existing client of
// github.com/redis/go-redis/v9. A program without one uses rueidisconn, which pipelines
// concurrent calls.
package goredisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/weirredis"
)

// Conn is a weirredis.Conn on a go-redis client of the caller. It never closes the client. Every
// call of the zero or nil Conn is an [engine.InputError].
type Conn struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // the client if it is for a Cluster, otherwise nil
	address string
}

// errZero is the error of the zero and the nil Conn.
var errZero = weirredis.UnsentError{
	Err: engine.Input("request",
		"the zero or nil Conn has no client; make one with goredisconn.New"),
}

// New returns a Conn on the client: one for a server, for a Sentinel group
// (NewFailoverClient) or for a Cluster. A Ring is rejected, because it would move
// histories between its servers when one of them is down.
//
// A decision is never sent twice, for any MaxRetries and MaxRedirects of the client: its
// commands are marked NoRetry. Redirections of a Cluster are followed. A client without
// retries does not notice that a node is gone. So Conn reloads the slots when a node does
// not reply, and ClusterStateReloadInterval need not be short.
func New(client redis.UniversalClient) (*Conn, error) {
	if isnil.Is(client) {
		return nil, errors.New("goredisconn: New got no client; " +
			"make one with redis.NewClient or redis.NewClusterClient")
	}
	switch c := client.(type) {
	case *redis.Client:
		return &Conn{client: c, address: c.Options().Addr}, nil
	case *redis.ClusterClient:
		return &Conn{client: c, cluster: c, address: strings.Join(c.Options().Addrs, ", ")}, nil
	case *redis.Ring:
		return nil, errors.New("goredisconn: a Ring moves keys between servers when one is away, " +
			"and their histories would begin again; " +
			"use a Cluster, or a Sentinel group with redis.NewFailoverClient")
	}
	return nil, fmt.Errorf("goredisconn: %T is not a client this package knows; "+
		"use *redis.Client or *redis.ClusterClient", client)
}

// once is a command that go-redis never sends twice.
type once struct{ *redis.Cmd }

// NoRetry reports that the command must not be retried.
func (once) NoRetry() bool { return true }

// Eval runs the script at most once.
//
// go-redis waits for a reply until its ReadTimeout, even after the context has ended. So
// Eval returns without the call when ctx is done. The call's connection stays busy until
// the timeout, or with the client's ContextTimeoutEnabled until the context's deadline.
func (c *Conn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	if c == nil || c.client == nil {
		return "", errZero
	}
	if ctx.Done() == nil {
		return c.eval(ctx, s, keys, args)
	}
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := c.eval(ctx, s, keys, args)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		c.reloadSlots(ctx)
		return "", ctx.Err()
	}
}

func (c *Conn) eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	text, err := c.run(ctx, "evalsha", s.SHA1, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		text, err = c.run(ctx, "eval", s.Text, keys, args)
	}
	if err != nil && slotsMayHaveMoved(err) {
		c.reloadSlots(ctx)
	}
	return text, classify(err)
}

// reloadSlots makes the client of a Cluster reload the slots of the nodes, in the
// background and at most five times a second.
func (c *Conn) reloadSlots(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

// slotsMayHaveMoved reports whether the node did not reply, or replied that the Cluster
// or the node cannot serve.
func slotsMayHaveMoved(err error) bool {
	var rejected redis.Error
	return !errors.As(err, &rejected) || redis.IsClusterDownError(err) || redis.IsLoadingError(err)
}

func (c *Conn) run(
	ctx context.Context, command, script string, keys, args []string,
) (string, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, command, script, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	for _, a := range args {
		words = append(words, a)
	}
	cmd := once{redis.NewCmd(ctx, words...)}
	if len(keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	_ = c.client.Process(ctx, cmd) // the error is in cmd
	return cmd.Text()
}

// classify returns the error in the form that weirredis.Conn demands.
func classify(err error) error {
	var rejected redis.Error
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &rejected):
		return weirredis.ReplyError(rejected.Error())
	case errors.As(err, &op) && op.Op == "dial",
		errors.Is(err, redis.ErrPoolTimeout),
		errors.Is(err, redis.ErrClosed):
		return weirredis.UnsentError{Err: err}
	}
	return err
}

// Clustered reports whether the client is one for a Cluster. The error is always nil.
func (c *Conn) Clustered(context.Context) (bool, error) {
	if c == nil || c.client == nil {
		return false, errZero
	}
	return c.cluster != nil, nil
}

// String returns the addresses of the client's options.
func (c *Conn) String() string {
	if c == nil {
		return ""
	}
	return c.address
}
