package rolling_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	rolling "github.com/weirlimit/weir/examples/engine"
	"github.com/weirlimit/weir/weirtest"
)

// TestConformance runs the part of the kit that the engine claims.
func TestConformance(t *testing.T) {
	weirtest.Run(t, func(*testing.T) engine.Engine { return rolling.New() },
		weirtest.Claims(func(c *engine.Call) bool { return rolling.Unsupported(c) == nil }))
}

// TestUnsupported: each rejection is bad input and names the limit or the policy, and the
// next step.
func TestUnsupported(t *testing.T) {
	limit := weir.Limit{Name: "burst", Max: 5, Window: time.Minute}
	for want, decide := range map[string]func(l weir.Limit) error{
		`weir: the limit's kind cannot do that: limit "burst" is of kind Bucket or has cells, and this engine has exact rolling windows only; use those, or weir.Memory`: func(l weir.Limit) error {
			l.Kind = weir.KindBucket
			_, err := open(t, weir.AllOrNothing, l).Allow(t.Context(), weir.K())
			return err
		},
		`weir: bad request: policy "api": this engine grants all or nothing, and has no records, refunds, ids, appointments, reservations and blocks; leave them out, or use weir.Memory`: func(l weir.Limit) error {
			_, err := open(t, weir.Partial, l).Allow(t.Context(), weir.K())
			_, again := open(t, weir.AllOrNothing, l).AllowOnce(t.Context(), weir.K(), 1, "id")
			if fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("an id: %v, want %v", again, err)
			}
			return err
		},
		`weir: bad request: limit "burst" blocks its key, and this engine has no blocks; leave Block out, or use weir.Memory`: func(l weir.Limit) error {
			_, err := open(t, weir.AllOrNothing, l.Blocking(time.Hour)).Allow(t.Context(), weir.K())
			return err
		},
	} {
		if err := decide(limit); !errors.Is(err, weir.ErrInput) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// open returns a limiter on a new engine.
func open(t *testing.T, mode weir.Mode, limit weir.Limit) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Policy{Name: "api", Mode: mode, Limits: []weir.Limit{limit}, Dimensions: limit.By}, weir.WithEngine(rolling.New()))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A limiter needs nothing but the engine.
func Example() {
	l, err := weir.New(weir.Policy{Name: "login", Limits: []weir.Limit{weir.PerMinute(2)}}, weir.WithEngine(rolling.New()))
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := l.Allow(context.Background(), weir.K())
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}
