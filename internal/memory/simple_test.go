package memory

import (
	"fmt"
	"github.com/weirlimit/weir/engine"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestSimpleAnswersAsTheGeneralPath: a policy of one limit answers as it does on an engine
// that takes the general path, attempt by attempt.
func TestSimpleAnswersAsTheGeneralPath(t *testing.T) {
	for seed := range uint64(race.Fewer(40)) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := policy{Name: "p", Limits: []limit{{Kind: []engine.Kind{engine.Rolling, engine.Bucket}[r.IntN(2)],
			Max: 1 + r.Int64N(6), Window: time.Duration(1+r.IntN(50)) * time.Millisecond, By: []string{"user"}}}}
		fast, general := newLimiter(p), newLimiter(p)
		general.simple, general.memory.compiled(general.rules).simple = nil, false
		at := time.UnixMicro(1_700_000_000_000_000)
		for step := range 2000 {
			at = at.Add(time.Duration(r.IntN(2)*r.IntN(20_000)-r.IntN(20)*r.IntN(2)) * time.Microsecond)
			k, n := K(fmt.Sprint(r.IntN(3))), 1+r.Int64N(3)*(r.Int64N(10)/9)
			got, err := fast.At(at).AllowN(k, n)
			want, _ := general.At(at).AllowN(k, n)
			if got != want || err != nil {
				t.Fatalf("seed %d, step %d: %d units at %v: got %+v (%v), want %+v; limits %+v", seed, step, n, at, got, err, want, p.Limits)
			}
			if got.Allowed && r.IntN(10) == 0 {
				fast.At(at).Refund(k, got.At, 1)
				general.At(at).Refund(k, got.At, 1)
			}
		}
	}
}
