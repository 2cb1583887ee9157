package conformance

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestFullBucketsMayBeForgotten: an engine may forget the last grant of a bucket once the bucket
// may be full and its interval is over. So a step under a longer interval is then out of
// contract (R13).
func TestFullBucketsMayBeForgotten(t *testing.T) {
	limit := weir.Limit{Name: "l", Kind: weir.KindBucket, Max: 5, Burst: 2, Window: 10 * time.Second}
	longer := limit
	longer.MinInterval = 10 * time.Second
	grant := answer{decision: weir.Decision{Allowed: true, Granted: 1}}
	for _, c := range []struct {
		now   weir.Limit
		at    time.Duration
		stale bool
	}{
		{longer, 2*time.Second - us, false}, // a unit flows in every two seconds
		{longer, 2 * time.Second, true},
		{limit, 2 * time.Second, false},
	} {
		k := newContract(0)
		k.observe([]weir.Limit{limit}, weir.AllOrNothing, step{op: opTake, n: 1}, grant)
		assert.Equal(t, k.stale([]weir.Limit{c.now}, step{op: opTake, n: 1, at: c.at}), c.stale, "interval %v at %v", c.now.MinInterval, c.at)
	}
}
