package enforce

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// refundOf is a refund of n units of the grant at an instant.
func refundOf(at time.Time, n int64, id string) weir.Request {
	return weir.Request{Op: weir.OpRefund, From: at, N: n, ID: id}
}

// TestRefundOnce: a refund with an id is made once, however often it is repeated and
// beside other grants of its instant, on every engine.
func TestRefundOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		ctx := context.Background()
		l, err := weir.New(weir.Policy{Name: "refunds", Limits: []weir.Limit{
			{Name: "all", Max: 100, Window: time.Minute}, {Name: "calls", Max: 100, Window: time.Minute, By: []string{"user"}, Cost: 1}}}, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		key, after := weir.K("u"), func(d time.Duration) *weir.Limiter { return l.At(start.Add(d)) }
		grant := func(d time.Duration, n int64) time.Time {
			t.Helper()
			made, err := after(d).AllowN(ctx, key, n)
			if err != nil || !made.Allowed {
				t.Fatal(made, err)
			}
			return made.At
		}
		refunds := func(d time.Duration, at time.Time, n int64, id string, want int64) {
			t.Helper()
			if took, err := after(d).Decide(ctx, key, refundOf(at, n, id)); err != nil || !took.Allowed || took.Granted != want {
				t.Errorf("%d at %v by %q: took %d, %v; want %d", n, d, id, took.Granted, err, want)
			}
		}
		counts := func(d time.Duration, want int64) {
			t.Helper()
			if n, err := after(d).Count(ctx, key, "all", time.Minute); err != nil || n != want {
				t.Errorf("at %v: %d count, %v; want %d", d, n, err, want)
			}
		}
		at := grant(0, 5)
		refunds(time.Second, at, 3, "r", 3)
		grant(0, 4) // merges with the rest, and must not be refunded
		refunds(time.Second, at, 3, "r", 3)
		counts(time.Second, 6)
		refunds(time.Second, at, 3, "s", 3)
		refunds(2*time.Second, at, 9, "more than there is", 3)
		refunds(2*time.Second, at, 9, "more than there is", 3)
		counts(2*time.Second, 0)

		refunds(2*time.Second, at, 1, "nothing", 0) // is not known, and so can be anything later
		at = grant(3*time.Second, 7)
		refunds(3*time.Second, at, 7, "nothing", 7)
		refunds(70*time.Second, at, 7, "nothing", 0) // not remembered any more

		oldest := func(d time.Duration) (int64, error) {
			c := engine.Call{Op: engine.Refund, Rules: l.Compiled(), Key: key, From: engine.Oldest, N: 2, At: start.Add(d).UnixMicro(), Given: true, ID: "oldest"}
			decideCall(e, &c)
			return c.Result.Granted, c.Err
		}
		if took, err := oldest(4 * time.Second); err != nil || took != 0 {
			t.Errorf("the oldest of nothing: took %d, %v", took, err)
		}
		grant(4*time.Second, 3)
		grant(5*time.Second, 3)
		for range 2 {
			if took, err := oldest(6 * time.Second); err != nil || took != 2 {
				t.Errorf("the oldest: took %d, %v", took, err)
			}
		}
		counts(6*time.Second, 4)

		for name, id := range map[string]string{"an attempt": "a", "a refund": "s"} {
			after(10*time.Second).Decide(ctx, key, weir.Request{N: 3, ID: "a"})
			if _, err := after(10*time.Second).Decide(ctx, key, refundOf(at, 3, id)); !errors.Is(err, &weir.InputError{Field: "id"}) || !strings.Contains(err.Error(), name) {
				t.Errorf("the id of %s: %v", name, err)
			}
		}
		if d, err := after(10*time.Second).Decide(ctx, key, weir.Request{N: 3, ID: "s"}); !errors.Is(err, &weir.InputError{Field: "id"}) || !strings.Contains(err.Error(), "a refund") {
			t.Errorf("an attempt by the id of a refund: %+v, %v", d, err)
		}
		if _, err := l.Decide(ctx, key, refundOf(at, 3, strings.Repeat("x", 129))); !errors.Is(err, &weir.InputError{Field: "id"}) {
			t.Errorf("too long an id: %v", err)
		}

		// On the engine's own clock, by many at once.
		d, err := l.AllowN(ctx, weir.K("v"), 50)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if took, err := l.Decide(ctx, weir.K("v"), refundOf(d.At, 2, "one")); err != nil || took.Granted != 2 {
					t.Errorf("one of many: took %d, %v", took.Granted, err)
				}
			})
		}
		all.Wait()
		if n, err := l.Count(ctx, weir.K("v"), "all", time.Minute); err != nil || n != 48 {
			t.Errorf("%d count after one refund of 2 of 50, %v", n, err)
		}
	})
}
