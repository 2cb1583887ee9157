package redispeers

import (
	"context"
	"errors"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/peers"
)

// RedisRate is the name of the yardstick, to which ratios refer.
const RedisRate = "redis_rate"

const redisRateModule = "github.com/go-redis/redis_rate/v10"

func redisRate() Peer {
	return Peer{
		Peer: peers.Peer{Name: RedisRate, Module: redisRateModule, Kind: peers.GCRA, Note: "burst = limit, through go-redis; the yardstick, = 1.00"},
		Open: func(addr string, limit int, window time.Duration) (Limiter, error) {
			c := client(addr)
			l, rate := redis_rate.NewLimiter(c), redis_rate.Limit{Rate: limit, Burst: limit, Period: window}
			return &limiter{close: c.Close, allow: func(ctx context.Context, key string) (bool, error) {
				answer, err := l.Allow(ctx, key, rate)
				return err == nil && answer.Allowed > 0, err
			}}, nil
		},
	}
}

// redisRateForm takes redis_rate's script and arguments from the commands that the
// library sends.
func redisRateForm() Form {
	return Form{Name: RedisRate, ServerClock: true, Note: "the library's own script and arguments",
		New: func(limit int64, window time.Duration) Decider {
			d := &recorder{rate: redis_rate.Limit{Rate: int(limit), Burst: int(limit), Period: window}}
			d.l = redis_rate.NewLimiter(d)
			d.Commands(Request{Key: "key", N: 1})
			return d
		}}
}

// recorder is a connection for the library. It records commands and returns nothing.
type recorder struct {
	redis.UniversalClient // nil: no other method is called
	l                     *redis_rate.Limiter
	rate                  redis_rate.Limit
	text                  string
	command               []any
}

var errOverheard = errors.New("noted")

// EvalSha answers as a server without the script, so that the library sends its text.
func (o *recorder) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	o.command = evalsha(sha, keys, args)
	reply := redis.NewCmd(ctx)
	reply.SetErr(errNoScript)
	return reply
}

var errNoScript = noScript{}

// noScript is the server's NOSCRIPT error as go-redis returns it.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT No matching script." }
func (noScript) RedisError()   {}

func (o *recorder) Eval(ctx context.Context, text string, _ []string, _ ...any) *redis.Cmd {
	o.text = text
	reply := redis.NewCmd(ctx)
	reply.SetErr(errOverheard)
	return reply
}

func (o *recorder) Commands(a Request) [][]any {
	if _, err := o.l.AllowN(context.Background(), a.Key, o.rate, int(a.N)); !errors.Is(err, errOverheard) {
		panic(err) // redis_rate sends other commands than expected
	}
	return [][]any{o.command}
}

func (o *recorder) Scripts() []string { return []string{o.text} }
