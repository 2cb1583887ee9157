// Package goredisconn lets weirredis run on the github.com/redis/go-redis/v9
// client that a program has already.
package goredisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/weirredis"
)

// Conn is a weirredis.Conn on somebody's go-redis client, which it never closes.
type Conn struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // the client, if it is one for a Cluster; else nil
	address string
}

// New returns a Conn on the client: one for a server, for a Sentinel group
// (NewFailoverClient) or for a Cluster. A Ring is refused, since it would move
// histories between its servers whenever one of them is away.
//
// Whatever MaxRetries and MaxRedirects of the client say, a decision is never sent
// twice: its commands are marked as not to be retried. A Cluster's redirections
// are followed. Since a client that retries nothing does not notice either that a
// node is gone, it is told to look for the slots anew when a node does not answer;
// ClusterStateReloadInterval need not be short.
func New(client redis.UniversalClient) (*Conn, error) {
	switch c := client.(type) {
	case *redis.Client:
		return &Conn{client: c, address: c.Options().Addr}, nil
	case *redis.ClusterClient:
		return &Conn{client: c, cluster: c, address: strings.Join(c.Options().Addrs, ", ")}, nil
	case *redis.Ring:
		return nil, errors.New("goredisconn: a Ring moves keys between servers when one is away, and their histories would " +
			"begin anew; use a Cluster, or a Sentinel group with redis.NewFailoverClient")
	}
	return nil, fmt.Errorf("goredisconn: %T is not a client this package knows; use *redis.Client or *redis.ClusterClient", client)
}

// once is a command that is never sent twice: go-redis asks every command.
type once struct{ *redis.Cmd }

// NoRetry reports that the command must not be retried.
func (once) NoRetry() bool { return true }

// Eval runs the script once at most.
//
// go-redis itself waits for an answer until its ReadTimeout, whatever happens to
// the context. A call whose context can end is therefore left behind when it does;
// its connection is busy until the timeout, or with the client's
// ContextTimeoutEnabled until the context's deadline.
func (c *Conn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	if ctx.Done() == nil {
		return c.eval(ctx, s, keys, args)
	}
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, err := c.eval(ctx, s, keys, args)
		done <- answer{text, err}
	}()
	select {
	case a := <-done:
		return a.text, a.err
	case <-ctx.Done():
		c.lookAnew(ctx)
		return "", ctx.Err()
	}
}

func (c *Conn) eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	text, err := c.run(ctx, "evalsha", s.SHA1, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		text, err = c.run(ctx, "eval", s.Text, keys, args)
	}
	if err != nil && unanswered(err) {
		c.lookAnew(ctx)
	}
	return text, explain(err)
}

// lookAnew makes the client of a Cluster ask which node has which slots: in the
// background, and at most five times a second.
func (c *Conn) lookAnew(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

// unanswered reports whether the slots may have moved: the node gave no answer, or
// says that the Cluster, as it sees it, cannot serve.
func unanswered(err error) bool {
	var refused redis.Error
	return !errors.As(err, &refused) || redis.IsClusterDownError(err) || redis.IsLoadingError(err)
}

func (c *Conn) run(ctx context.Context, command, script string, keys, args []string) (string, error) {
	words := make([]any, 3, 3+len(keys)+len(args))
	words[0], words[1], words[2] = command, script, len(keys)
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
	_ = c.client.Process(ctx, cmd) // the command keeps its error
	return cmd.Text()
}

// explain tells the errors apart that a Conn must tell apart.
func explain(err error) error {
	var refused redis.Error
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return weirredis.ReplyError(refused.Error())
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return weirredis.UnsentError{Err: err}
	}
	return err
}

// Clustered reports whether the client speaks to a Redis Cluster.
func (c *Conn) Clustered() bool { return c.cluster != nil }

// String returns the addresses the client was given.
func (c *Conn) String() string { return c.address }
