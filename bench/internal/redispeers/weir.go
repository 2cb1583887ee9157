package redispeers

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/goredisconn"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

const weirModule = "github.com/weirlimit/weir"

// Weir's configurations.
const (
	WeirRueidis      = "weir, rueidis"
	WeirGoRedis      = "weir, go-redis"
	WeirForgetful    = "weir, rueidis, no denial cache"
	WeirPlain        = "weir, rueidis, each in its own call"
	WeirPlainGoRedis = "weir, go-redis, each in its own call"
)

func weirPeers() []Peer {
	const whole = "Limiter.Allow: decision, remaining, waits, binding limit; the server's clock"
	forgetful, plain := weirredis.DenialCacheTTL(0), weirredis.DisableBatching()
	return []Peer{
		weirPeer(WeirRueidis, whole+"; defaults: waiting callers share one call, denials are cached for up to 100 ms", rueidisConn),
		weirPeer(WeirGoRedis, "the same on a go-redis client with its defaults", goRedisConn),
		weirPeer(WeirForgetful, whole+"; DenialCacheTTL(0)", rueidisConn, forgetful),
		weirPeer(WeirPlain, whole+"; DenialCacheTTL(0), DisableBatching", rueidisConn, forgetful, plain),
		weirPeer(WeirPlainGoRedis, "the same on a go-redis client with its defaults", goRedisConn, forgetful, plain),
	}
}

// opener connects with one of the clients. The returned function closes the connection.
type opener func(addr string) (conn weirredis.Conn, closing func(), err error)

func rueidisConn(addr string) (weirredis.Conn, func(), error) {
	c, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

func goRedisConn(addr string) (weirredis.Conn, func(), error) {
	c := client(addr)
	conn, err := goredisconn.New(c)
	if err != nil {
		return nil, nil, err
	}
	return conn, func() { c.Close() }, nil
}

func weirPeer(name, note string, connect opener, opts ...weirredis.Option) Peer {
	return Peer{
		Peer: peers.Peer{Name: name, Module: weirModule, Kind: peers.RollingLog, Note: note},
		Open: func(addr string, limit int, window time.Duration) (Limiter, error) {
			conn, closing, err := connect(addr)
			if err != nil {
				return nil, err
			}
			engine, err := weirredis.New(conn, opts...)
			if err != nil {
				return nil, err
			}
			l, err := weir.New(peers.WeirPolicy(limit, window), weir.WithEngine(engine))
			if err != nil {
				return nil, err
			}
			return &weirLimiter{l, closing}, nil
		},
	}
}

type weirLimiter struct {
	l       *weir.Limiter
	closing func()
}

func (w *weirLimiter) Allow(ctx context.Context, key string) (bool, error) {
	d, err := w.l.Allow(ctx, weir.K(key))
	return d.Allowed, err
}

func (w *weirLimiter) Close() { w.closing() }
