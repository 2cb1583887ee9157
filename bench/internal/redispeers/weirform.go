package redispeers

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/goredisconn"
)

// Weir's decisions as commands.
const (
	WeirCaller   = "weir, caller's clock"
	WeirServer   = "weir, server's clock"
	WeirWeighted = "weir, caller's clock, 100 to 199 units each"
)

// HeaviestUnits is more than the units of any attempt of WeirWeighted. Its limit is the
// limit of the others times HeaviestUnits.
const HeaviestUnits = 200

func weirForms() []Form {
	return []Form{
		weirForm(WeirCaller, false, 1),
		weirForm(WeirServer, true, 1),
		weirForm(WeirWeighted, false, HeaviestUnits),
	}
}

func weirForm(name string, serverClock bool, units int64) Form {
	return Form{Name: name, ServerClock: serverClock, Note: "exact: decision, remaining, waits, binding limit",
		New: func(limit int64, window time.Duration) Decider {
			d := &scriptRecorder{policy: peers.WeirPolicy(int(limit*units), window), serverClock: serverClock}
			engine := must(weirredis.New(d, weirredis.DisableBatching(), weirredis.DenialCacheTTL(0)))
			d.l = must(weir.New(d.policy, weir.WithEngine(engine)))
			d.Commands(Request{Key: "key", N: 1})
			return d
		}}
}

// scriptRecorder is a connection for the engine. It records scripts and returns nothing.
type scriptRecorder struct {
	policy      weir.Policy
	l           *weir.Limiter
	serverClock bool
	script      *weirredis.Script
	command     []any
}

const errNoted = weirredis.ReplyError("noted")

// Eval records the call.
func (e *scriptRecorder) Eval(_ context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	more := make([]any, len(args))
	for i, a := range args {
		more[i] = a
	}
	e.script, e.command = s, evalsha(s.SHA1, keys, more)
	return "", errNoted
}

func (e *scriptRecorder) Commands(a Request) [][]any {
	e.command = nil
	if e.serverClock {
		e.l.AllowN(context.Background(), weir.K(a.Key), a.N)
	} else {
		e.l.At(time.UnixMicro(a.At)).AllowN(context.Background(), weir.K(a.Key), a.N)
	}
	if e.command == nil {
		panic("weir sent no command")
	}
	return [][]any{e.command}
}

func (e *scriptRecorder) Scripts() []string { return []string{e.script.Text} }

// Held returns the units that count on a real server at the instant of the request.
func (e *scriptRecorder) Held(ctx context.Context, c *redis.Client, a Request) (int64, error) {
	conn, err := goredisconn.New(c)
	if err != nil {
		return 0, err
	}
	real := must(weir.New(e.policy, weir.WithEngine(must(weirredis.New(conn)))))
	const onlyLimit = "limit" // the name of a policy's only limit
	key, window := weir.K(a.Key), e.policy.Limits[0].Window
	if e.serverClock {
		return real.Count(ctx, key, onlyLimit, window)
	}
	return real.At(time.UnixMicro(a.At)).Count(ctx, key, onlyLimit, window)
}
