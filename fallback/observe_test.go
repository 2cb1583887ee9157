package fallback_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// seen collects the calls that an observer got, in few words. It serves one goroutine.
type seen []string

func (all *seen) add(_ context.Context, c *engine.Call, _ time.Duration) {
	outcome := "denied"
	switch {
	case c.Err != nil:
		outcome = "failed"
	case c.Result.Degraded:
		outcome = "degraded"
	case c.Result.Allowed:
		outcome = "allowed"
	}
	*all = append(*all, c.Rules.Name+" "+outcome)
}

// take returns the calls since the last take.
func (all *seen) take() string {
	words := strings.Join(*all, ", ")
	*all = nil
	return words
}

// TestObserveAroundAndInsideAFallback: outside, an observer sees the answers of callers; inside,
// it sees the store.
func TestObserveAroundAndInsideAFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no probe comes while no time passes
		var inside, outside seen
		store := weirtest.NewFaulty(weir.NewMemory())
		f := fallback.New(weir.Observe(store, inside.add), fallback.Share,
			fallback.FailureThreshold(2), fallback.ErrorLog(slog.New(slog.DiscardHandler)))
		defer f.Close()
		around := weir.Observe(f, outside.add)
		limiter := newLimiter(t, ten, weir.WithEngine(around))
		for _, step := range []struct {
			name            string
			fault           weirtest.Fault // nil = the store decides
			inside, outside string
		}{
			{"up", nil, "ten allowed", "ten allowed"},
			{"failing", weirtest.Down(), "ten failed", "ten degraded"},
			{"too slow", weirtest.Silent(), "ten failed", "ten degraded"},
			{"down", weirtest.Down(), "", "ten degraded"},
		} {
			if store.Restore(); step.fault != nil {
				store.Break(step.fault)
			}
			mustAllow(t, limiter, weir.K("42"))
			assert.Equal(t, inside.take(), step.inside, "%s: reports inside", step.name)
			assert.Equal(t, outside.take(), step.outside, "%s: reports outside", step.name)
		}
		_, err := limiter.Count(ctx, weir.K("42"), ten.Limits[0].Name, time.Second)
		assert.Error(t, err, weir.ErrUnavailable)
		assert.Equal(t, outside.take(), "ten failed", "reports of a call that only the store decides")

		store.Restore()
		time.Sleep(time.Minute) // until the timer's probe
		synctest.Wait()
		assert.Equal(t, inside.take(), "weir-probe allowed", "reports of the probe inside")
		assert.Equal(t, outside.take(), "", "reports of the probe outside")
	})
}

// TestFallbackDoesNotTimeAnObservedMemory: a memory engine never waits, so its context has no
// deadline, also inside observers. The context of another engine has one.
func TestFallbackDoesNotTimeAnObservedMemory(t *testing.T) {
	for _, store := range []engine.Engine{weir.NewMemory(), weirtest.NewFaulty(weir.NewMemory())} {
		timed, reported := false, 0
		inner := weir.Observe(store, func(ctx context.Context, _ *engine.Call, _ time.Duration) {
			_, timed = ctx.Deadline()
		})
		outer := weir.Observe(inner, func(context.Context, *engine.Call, time.Duration) { reported++ })
		limiter := newLimiter(t, ten, weir.WithEngine(fallback.New(outer, fallback.Deny)))
		mustAllow(t, limiter, weir.K("42"))
		_, isMemory := store.(*weir.Memory)
		assert.Equal(t, timed, !isMemory, "%T: the call has a deadline", store)
		assert.Equal(t, reported, 1, "%T: reports", store)
	}
}
