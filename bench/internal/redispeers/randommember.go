package redispeers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// randomMember is a log in a sorted set with a random member for each attempt, as in
// rolling-rate-limiter: four commands between MULTI and EXEC, without a script. Every
// attempt is stored, denied or not. Every decision sends the whole set to the caller, which
// decides.
const randomMember = "sorted set, random members"

const randomMemberNote = "as rolling-rate-limiter: MULTI of four commands, denied attempts are stored, the caller reads the whole set and decides"

func randomMemberForm() Form {
	return Form{Name: randomMember, Note: randomMemberNote, ReadsAll: true,
		New: func(limit int64, window time.Duration) Decider {
			return transaction{window: window.Microseconds()}
		}}
}

type transaction struct{ window int64 }

func (transaction) Scripts() []string { return nil }

func (t transaction) Commands(a Request) [][]any {
	return [][]any{
		{"MULTI"},
		{"ZREMRANGEBYSCORE", a.Key, 0, a.At - t.window},
		t.Entry(a),
		{"ZRANGE", a.Key, 0, -1, "WITHSCORES"},
		{"PEXPIRE", a.Key, (t.window + 999) / 1000},
		{"EXEC"},
	}
}

func (t transaction) Entry(a Request) []any { return []any{"ZADD", a.Key, a.At, uuid()} }

func (t transaction) Held(ctx context.Context, c *redis.Client, a Request) (int64, error) {
	return c.ZCard(ctx, a.Key).Result()
}

// uuid returns a random text of the length and form of a version 4 UUID.
func uuid() string {
	a, b := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffff_ffff_ffff)
}

func randomMemberPeer() Peer {
	return own(randomMember, log, randomMemberNote+"; through go-redis", func(addr string, limit int, window time.Duration) (Limiter, error) {
		c := client(addr)
		return &limiter{close: c.Close, allow: func(ctx context.Context, key string) (bool, error) {
			now := time.Now().UnixMicro()
			var all *redis.ZSliceCmd
			_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.ZRemRangeByScore(ctx, key, "0", decimal(now-window.Microseconds()))
				p.ZAdd(ctx, key, redis.Z{Score: float64(now), Member: uuid()})
				all = p.ZRangeWithScores(ctx, key, 0, -1)
				p.PExpire(ctx, key, window)
				return nil
			})
			return err == nil && len(all.Val()) <= limit, err
		}}, nil
	})
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
