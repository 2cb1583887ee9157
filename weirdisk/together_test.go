package weirdisk

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestTogetherWithALongerWindow: calls together are the first to use a longer window of one of
// their policies, and the directory opens (R12). The log names histories, not joined rules.
func TestTogetherWithALongerWindow(t *testing.T) {
	for name, second := range map[string]string{"two policies": "b", "two keys of one policy": "a"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir, SyncEvery(time.Hour))
			limiter := func(e *Engine, policy string, window time.Duration) *weir.Limiter {
				p := weir.Policy{Name: policy, Limits: []weir.Limit{{Name: "l", Max: 10, Window: window, By: []string{"k"}}}}
				return must.Get(weir.New(p, weir.WithEngine(e)))(t)
			}
			must.Get(limiter(e, "a", time.Minute).Allow(ctx, weir.K("x")))(t)
			longer := limiter(e, "a", time.Hour)
			other := longer
			if second != "a" {
				other = limiter(e, second, time.Minute)
			}
			calls := []weir.Call{{Limiter: longer, Key: weir.K("x"), Request: weir.Request{N: 1}}, {Limiter: other, Key: weir.K("y"), Request: weir.Request{N: 1}}}
			if err := weir.DecideTogether(ctx, calls); err != nil || !calls[0].Decision.Allowed {
				t.Fatal(calls, err)
			}
			must.Do(t, e.Close())
			e = open(t, dir, SyncEvery(time.Hour))
			if d, err := limiter(e, "a", time.Hour).Peek(ctx, weir.K("x"), 1); err != nil || d.Remaining != 8 {
				t.Errorf("got %+v, %v, want 8 left", d, err)
			}
		})
	}
}
