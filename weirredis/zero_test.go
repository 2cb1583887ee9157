package weirredis_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// TestLimitOfZeroKeepsNoMark: under a Max of 0 CountDenied counts attempts as no
// units, so no entry stays (R6), not even one without units. Its mark would be the end of
// its cell (R9), and once the limit is raised and exact (R12), entries before that
// would be taken for later than they are.
func TestLimitOfZeroKeepsNoMark(t *testing.T) {
	for _, e := range []engine.Engine{newEngine(t, redisConn(t)), spec.New()} {
		none := perUser(0, time.Hour)
		none.Cells = 1
		if d := must(t)(limiter(t, e, "zero", weir.CountDenied, none).At(nine).Allow(ctx, weir.K("u"))); d.Allowed {
			t.Fatalf("%T: %+v", e, d)
		}
		raised := limiter(t, e, "zero", weir.CountDenied, perUser(5, time.Hour))
		d := must(t)(raised.At(nine.Add(time.Second)).Allow(ctx, weir.K("u")))
		if !d.Allowed || d.ResetAfter != time.Hour {
			t.Errorf("%T: got %+v, want it granted and counted for an hour", e, d)
		}
	}
}
