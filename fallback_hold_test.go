package weir_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirtest"
)

// heldBeyond is how much longer than its longest window a policy is held: a second
// by which processes may differ, and the default budget.
const heldBeyond = time.Second + 50*time.Millisecond

// rolling is a policy of ten in a window.
func rolling(name string, window time.Duration) weir.Policy {
	return weir.Policy{Name: name, Limits: []weir.Limit{{Name: "l", Max: 10, Window: window}}}
}

// allow makes one attempt and checks who answers, and with what wait.
func allow(t *testing.T, l *weir.Limiter, name string, wait time.Duration, degraded bool) {
	t.Helper()
	d, err := l.Allow(ctx, weir.K())
	if err != nil || d.Allowed != (wait == 0) || d.Granted != 0 != (wait == 0) || d.RetryAfter != wait || d.Degraded != degraded || (d.Limit == "") != (wait == 0) {
		t.Errorf("%s: got %+v, %v; want a wait of %v, degraded %t", name, d, err, wait, degraded)
	}
}

// noShare is a share of nothing, so that what is held is refused.
func noShare() weir.FallbackOption {
	return weir.ShareOf(func(string, weir.Limit) int64 { return 0 })
}

// TestHoldRefuses: for how long shares are held when an outage begins, and the
// store when it has ended, to the microsecond. What the share grants in between
// counts when it has ended.
func TestHoldRefuses(t *testing.T) {
	const window = 10 * time.Second
	const held = window + heldBeyond
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, rolling("p", window), weir.Local, weir.Hold(), weir.Instances(10))
		allow(t, s.Limiter, "up", 0, false)
		s.Break(weirtest.Down())
		allow(t, s.Limiter, "the first failure", held, true)
		if d, err := s.Record(ctx, weir.K(), 1); err != nil || !d.Allowed || !d.Degraded {
			t.Errorf("a record: %+v, %v; want the share to take it", d, err)
		}
		time.Sleep(held - time.Second)
		allow(t, s.Limiter, "a second before", time.Second, true)
		time.Sleep(time.Second - time.Microsecond)
		allow(t, s.Limiter, "a microsecond before", time.Microsecond, true)
		time.Sleep(time.Microsecond)
		if d, err := s.Allow(ctx, weir.K()); err != nil || !d.Allowed || !d.Degraded || d.RetryAfter != window {
			t.Errorf("held for long enough: %+v, %v; want the share of one granted", d, err)
		}

		s.Mend()
		time.Sleep(time.Second)
		asked, degraded := s.Asked(), s.fallback.Status().Degraded
		allow(t, s.Limiter, "up again, found out", window-time.Second, true)
		s.want(weir.StoreUp)
		allow(t, s.Limiter, "beyond the share", window-time.Second, true)
		if s.Asked() != asked+2 || s.fallback.Status().Degraded != degraded+2 {
			t.Errorf("asked %d times, %d degraded; want both to be of both", s.Asked()-asked, s.fallback.Status().Degraded-degraded)
		}
		if d, err := s.Record(ctx, weir.K(), 1); err != nil || !d.Allowed || d.Degraded || d.Remaining != 9 {
			t.Errorf("a record: %+v, %v; want the store to take it, and nothing before it", d, err)
		}
		if d, err := s.AllowN(ctx, weir.K(), 11); err != nil || d.Allowed || d.RetryAfter != weir.Never {
			t.Errorf("11 of 10: %+v, %v; want never", d, err)
		}
		time.Sleep(window - time.Second - time.Microsecond)
		allow(t, s.Limiter, "a microsecond before", time.Microsecond, true)
		time.Sleep(time.Microsecond)
		if d, err := s.Allow(ctx, weir.K()); err != nil || !d.Allowed || d.Degraded || d.Remaining != 0 || d.RetryAfter != held-window+time.Second {
			t.Errorf("as much as the share: %+v, %v; want it granted, and no more before the hold ends", d, err)
		}
		time.Sleep(held - window + time.Second - time.Microsecond)
		allow(t, s.Limiter, "a microsecond before", time.Microsecond, true)
		time.Sleep(time.Microsecond)
		allow(t, s.Limiter, "held for long enough", 0, false)
	})
}

// TestHoldHiccup: a store that was away for less than a window was away for too
// short a time for anybody's share: nothing is held when it is back.
func TestHoldHiccup(t *testing.T) {
	const window = 10 * time.Second
	for _, c := range []struct {
		away time.Duration
		held bool
	}{{0, false}, {window - heldBeyond, false}, {window - heldBeyond + time.Microsecond, true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, rolling("p", window), weir.Local, weir.Hold(), weir.OpenAfter(0), noShare())
			allow(t, s.Limiter, "up", 0, false)
			s.Break(weirtest.Down())
			allow(t, s.Limiter, "a failure", window+heldBeyond, true)
			time.Sleep(c.away)
			s.Mend()
			if c.held {
				allow(t, s.Limiter, "back", window+heldBeyond, true)
				allow(t, s.Limiter, "and once more", window+heldBeyond, true)
			} else {
				allow(t, s.Limiter, "back", 0, false)
			}
		})
	}
}

// TestHoldOlderOutage: a short outage does not end the hold after a long one, and
// policies with short windows do not wait for long ones.
func TestHoldOlderOutage(t *testing.T) {
	const long, short = 100 * time.Second, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, rolling("long", long), weir.Local, weir.Hold(), weir.OpenAfter(0), noShare())
		quick := must(weir.New(rolling("short", short), weir.WithEngine(s.fallback)))
		outage := func(d time.Duration) {
			s.Break(weirtest.Down())
			s.fail(1)
			time.Sleep(d)
			s.Mend()
		}
		allow(t, s.Limiter, "long, up", 0, false)
		outage(150 * time.Second)
		allow(t, s.Limiter, "long, back", long+heldBeyond, true)
		allow(t, quick, "short, back", short+heldBeyond, true)
		for range 40 { // as long as each other
			time.Sleep(500 * time.Millisecond)
			outage(0)
			s.Peek(ctx, weir.K(), 1)
		}
		allow(t, quick, "short, 20 s later", 0, false)
		outage(0)
		allow(t, quick, "short, after a hiccup", 0, false)
		outage(20 * time.Second)
		allow(t, quick, "short, after 20 s more", short+heldBeyond, true)
		allow(t, s.Limiter, "long, 40 s later", long+heldBeyond-40*time.Second, true)
		time.Sleep(long + heldBeyond - 40*time.Second)
		allow(t, s.Limiter, "long, in the end", 0, false)
	})
}

// TestHoldManyOutages: what is remembered of outages is bounded, and errs on the
// side of refusing.
func TestHoldManyOutages(t *testing.T) {
	const long = time.Hour
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, rolling("long", long), weir.Local, weir.Hold(), weir.OpenAfter(0), noShare())
		s.Break(weirtest.Down())
		s.fail(1)
		time.Sleep(2 * long)
		s.Mend()
		allow(t, s.Limiter, "back", long+heldBeyond, true)
		for i := range 50 { // ever shorter ones, so that each is remembered
			s.Break(weirtest.Down())
			s.fail(1)
			time.Sleep(50*time.Second - time.Duration(i)*time.Second)
			s.Mend()
			s.Peek(ctx, weir.K(), 1)
		}
		d, err := s.Allow(ctx, weir.K())
		if err != nil || d.Allowed || d.RetryAfter < long/2 || d.RetryAfter > long+heldBeyond {
			t.Errorf("after many: %+v, %v; want it held for the first of them", d, err)
		}
		time.Sleep(d.RetryAfter)
		allow(t, s.Limiter, "in the end", 0, false)
	})
}

// TestHoldStraggler: a success that was asked for before the breaker opened leaves
// nobody knowing since when the store is out: the hold begins anew.
func TestHoldStraggler(t *testing.T) {
	const window = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, rolling("p", window), weir.Local, weir.Hold())
		s.Break(weirtest.Slow(40 * time.Millisecond))
		var all sync.WaitGroup
		all.Go(func() { s.Allow(ctx, weir.K()) })
		synctest.Wait()
		s.Break(weirtest.Down())
		s.fail(5)
		all.Wait()
		s.want(weir.StoreDown)
		allow(t, s.Limiter, "after the straggler", window+heldBeyond, true)
	})
}

// TestHoldOldNews: a share grants only while the store was found failing a moment
// ago. A process that slept asks first.
func TestHoldOldNews(t *testing.T) {
	const window = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, rolling("p", window), weir.Local, weir.Hold())
		s.Break(weirtest.Silent())
		s.fail(5)
		time.Sleep(window + heldBeyond)
		allow(t, s.Limiter, "the share grants", 0, true)
		time.Sleep(time.Minute)
		var probe sync.WaitGroup
		probe.Go(func() { allow(t, s.Limiter, "the probe, after its budget", 0, true) })
		synctest.Wait()
		allow(t, s.Limiter, "beside the probe", time.Second, true)
		probe.Wait()
		allow(t, s.Limiter, "after the probe", 0, true)
		time.Sleep(90 * time.Millisecond) // before the next probe
		allow(t, s.Limiter, "soon after", 0, true)
	})
}

// TestHoldCountDenied: where refused attempts count, held ones do too (R6).
func TestHoldCountDenied(t *testing.T) {
	const window = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		p := rolling("p", window)
		p.Mode = weir.CountDenied
		s := newStore(t, p, weir.Local, weir.Hold(), weir.Instances(2))
		s.Break(weirtest.Down())
		for i := range int64(5) {
			if d, err := s.Allow(ctx, weir.K()); err != nil || d.Allowed || d.Remaining != 9-i-5 {
				t.Errorf("held, share: %+v, %v; want it refused and counted, %d left", d, err, 9-i-5)
			}
		}
		time.Sleep(window + heldBeyond)
		s.Mend()
		for i := range int64(7) {
			d, err := s.Allow(ctx, weir.K())
			if fits := i < 5; err != nil || d.Allowed != fits || d.Degraded == fits || (d.Limit == "") != fits || d.Remaining != max(0, 4-i) {
				t.Errorf("attempt %d of a share of 5: %+v, %v; want what fits it granted", i+1, d, err)
			}
		}
		if n, err := s.Count(ctx, weir.K(), "l", window); n != 7 || err != nil {
			t.Errorf("the store counts %d, %v; want all 7 attempts", n, err)
		}
	})
}

// TestHoldFirstCall: who was never answered does not know since when the store is
// out. His share is what he may grant when it is back. Who was answered once knows.
func TestHoldFirstCall(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, rolling("p", time.Hour), weir.Local, weir.Hold(), weir.Instances(4))
			if known {
				if _, err := s.Peek(ctx, weir.K(), 1); err != nil {
					t.Fatal(err)
				}
			}
			s.Break(weirtest.Silent())
			allow(t, s.Limiter, "the first call", time.Hour+heldBeyond, true)
			s.Mend()
			granted := int64(0)
			for range 10 {
				d, err := s.Allow(ctx, weir.K())
				if err != nil || d.Degraded == d.Allowed {
					t.Errorf("the store is back: %+v, %v; want refusals degraded, and them alone", d, err)
				}
				granted += d.Granted
			}
			if want := map[bool]int64{false: 10 / 4, true: 10}[known]; granted != want {
				t.Errorf("answered before %t: %d granted, want %d", known, granted, want)
			}
		})
	}
}

// TestHoldShares: what is granted while both are asked, in every mode, fits both,
// also when everybody comes at once.
func TestHoldShares(t *testing.T) {
	held := func(t *testing.T, mode weir.Mode) *store {
		p := weir.Policy{Name: "p", Mode: mode, Limits: []weir.Limit{{Name: "l", Max: 10, Window: time.Minute, Gap: time.Second}}}
		if mode != weir.Partial {
			p.Limits[0].Gap = 0
		}
		s := newStore(t, p, weir.Local, weir.Hold(), weir.Instances(2))
		s.Break(weirtest.Down())
		s.fail(1)
		s.Mend()
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		s := held(t, weir.Partial)
		if d, err := s.Peek(ctx, weir.K(), 7); err != nil || d.Granted != 5 || d.Limit != "l" || !d.Degraded {
			t.Errorf("a peek of 7: %+v, %v; want the share of 5", d, err)
		}
		if d, err := s.AllowN(ctx, weir.K(), 3); err != nil || d.Granted != 3 || d.Remaining != 2 || d.Degraded {
			t.Errorf("3: %+v, %v; want them granted, 2 left of the share", d, err)
		}
		if d, err := s.AllowN(ctx, weir.K(), 1); err != nil || d.Allowed || d.RetryAfter != time.Second {
			t.Errorf("within the gap: %+v, %v; want a wait of a second", d, err)
		}
		time.Sleep(time.Second)
		if d, err := s.AllowN(ctx, weir.K(), 7); err != nil || d.Granted != 2 || d.Remaining != 0 || d.Limit != "l" || !d.Degraded || d.RetryAfter <= time.Minute-time.Second {
			t.Errorf("7: %+v, %v; want the 2 that are left, and none before the hold ends", d, err)
		}
		time.Sleep(time.Second)
		if d, err := s.AllowN(ctx, weir.K(), 1); err != nil || d.Allowed || d.Limit != "l" || !d.Degraded {
			t.Errorf("1 more: %+v, %v; want it refused", d, err)
		}
		if n, err := s.Count(ctx, weir.K(), "l", time.Minute); n != 5 || err != nil {
			t.Errorf("the store counts %d, %v; want the 5 that were granted", n, err)
		}
	})
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.CountDenied} {
		synctest.Test(t, func(t *testing.T) {
			s := held(t, mode)
			s.Break(weirtest.Slow(10 * time.Millisecond))
			var granted atomic.Int64
			var all sync.WaitGroup
			for range 9 {
				all.Go(func() {
					d, err := s.Allow(ctx, weir.K())
					if err != nil || d.Allowed != (d.Granted == 1) || d.Allowed == d.Degraded || (d.Limit == "") != d.Allowed {
						t.Errorf("mode %v: %+v, %v", mode, d, err)
					}
					granted.Add(d.Granted)
				})
			}
			all.Wait()
			if want := map[weir.Mode]int64{weir.AllOrNothing: 5, weir.CountDenied: 4}[mode]; granted.Load() != want {
				t.Errorf("mode %v: %d granted at once, want %d", mode, granted.Load(), want)
			}
		})
	}
}

// TestHoldFullShare: a share without room for a key grants it nothing, and says that
// the store may have recorded it.
func TestHoldFullShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 10, Window: time.Minute, By: []string{"user"}}}}
		s := newStore(t, p, weir.Local, weir.Hold(), weir.LocalMemory(weir.NewMemory(weir.MaxKeys(1))))
		s.Break(weirtest.Down())
		s.fail(1)
		s.Mend()
		if d, err := s.Allow(ctx, weir.K("a")); err != nil || !d.Allowed {
			t.Errorf("a key that has room: %+v, %v", d, err)
		}
		if d, err := s.Allow(ctx, weir.K("b")); !errors.Is(err, weir.ErrFull) || !errors.Is(err, weir.ErrUnknownFate) || d.Allowed {
			t.Errorf("a key beyond the cap: %+v, %v; want ErrFull, of unknown fate", d, err)
		}
	})
}

// TestHoldUnreadable: since when the store cannot read a key nobody knows, so that
// no share grants in its place.
func TestHoldUnreadable(t *testing.T) {
	const window = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, rolling("p", window), weir.Local, weir.Hold())
		allow(t, s.Limiter, "up", 0, false)
		s.Break(func(context.Context, func()) error { return weir.ErrUnreadable })
		for range 3 {
			allow(t, s.Limiter, "unreadable", window+heldBeyond, true)
			time.Sleep(2 * window)
		}
		s.Mend()
		allow(t, s.Limiter, "readable again", 0, false)
	})
}

// TestHoldCells: on a grid a unit counts one cell longer (R9), and is held for.
func TestHoldCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rolling("p", 11*time.Second)
		p.Limits = append(p.Limits, weir.Limit{Name: "grid", Max: 10, Window: 10 * time.Second, Cells: 5})
		s := newStore(t, p, weir.Local, weir.Hold())
		s.Break(weirtest.Down())
		allow(t, s.Limiter, "held", 12*time.Second+heldBeyond, true)
	})
}

// TestHoldOfOthers: modes without shares hold nothing, and errors stay errors.
func TestHoldOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, rolling("p", time.Hour), weir.FailOpen, weir.Hold())
		s.Break(weirtest.Down())
		allow(t, s.Limiter, "open", 0, true)
		time.Sleep(2 * time.Hour)
		s.Mend()
		allow(t, s.Limiter, "back", 0, false)

		local := must(weir.New(rolling("p", time.Hour), weir.WithEngine(s.fallback.WithMode(weir.Local))))
		if d, err := local.AllowN(ctx, weir.K(), -1); !errors.Is(err, weir.ErrUnits) || d.Allowed {
			t.Errorf("-1: %+v, %v; want ErrUnits", d, err)
		}
	})
}
