package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// BenchmarkOne compares the short way of one unit with the general way, on the same keys in
// alternating rounds.
func BenchmarkOne(b *testing.B) {
	p := policy{Name: "p", Limits: []limit{{Max: 1 << 30, Window: 10 * time.Millisecond, By: []string{"user"}}}}
	for _, keys := range []int{1, 10_000} {
		users := make([]string, keys)
		for i := range users {
			users[i] = fmt.Sprintf("user:%011d", i)
		}
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			const round = 512
			ways := []*limiter{newLimiter(p), newLimiter(p)}
			ways[1].memory.Rules(ways[1].rules).simple = false
			var took [2]time.Duration
			var d engine.Result
			for first := 0; b.Loop(); first += round {
				for way, l := range ways {
					start := time.Now()
					for i := range round {
						k := K(users[(first+i)*7919%keys])
						d = engine.Result{}
						if err := l.memory.Allow(l.memory.Rules(l.rules), &k, 1, time.Time{}, &d); err != nil {
							b.Fatal(err)
						}
					}
					took[way] += time.Since(start)
				}
			}
			b.ReportMetric(float64(took[0])/float64(took[1]), "short/general")
		})
	}
}
