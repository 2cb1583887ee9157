package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestOneAnswersAsTheGeneralWay: a policy of one rolling window answers as it does on an engine
// that takes the general way, attempt by attempt.
func TestOneAnswersAsTheGeneralWay(t *testing.T) {
	for seed := range uint64(race.Fewer(40)) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := policy{Name: "p", Limits: []limit{{Max: 1 + r.Int64N(40), Window: time.Duration(1+r.IntN(50)) * time.Millisecond, By: []string{"user"}}}}
		short, general := newLimiter(p), newLimiter(p)
		general.memory.Rules(general.rules).simple = false
		at := time.UnixMicro(1_700_000_000_000_000)
		for step := range 4000 {
			at = at.Add(time.Duration(r.IntN(2)*r.IntN(5_000)-r.IntN(20)*r.IntN(2)) * time.Microsecond)
			k, n := K(fmt.Sprint(r.IntN(3))), 1+r.Int64N(3)*(r.Int64N(10)/9)
			got, err := short.At(at).AllowN(k, n)
			want, _ := general.At(at).AllowN(k, n)
			if got != want || err != nil {
				t.Fatalf("seed %d, step %d: %d units at %v: got %+v (%v), want %+v; limits %+v", seed, step, n, at, got, err, want, p.Limits)
			}
			if got.Allowed && r.IntN(10) == 0 {
				short.At(at).Refund(k, got.At, 1)
				general.At(at).Refund(k, got.At, 1)
			}
		}
	}
}

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
