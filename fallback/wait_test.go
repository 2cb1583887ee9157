package fallback_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// TestAllowStartsNow: during an outage Allow lets no caller wait, and Deny fails it.
func TestAllowStartsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, of(2), fallback.Allow)
		s.Break(weirtest.Down())
		start := time.Now()
		for range 5 {
			d, err := s.Wait(ctx, weir.K())
			if err != nil || !d.Allowed || !d.Degraded || d.StartAfter != 0 {
				t.Errorf("%+v, %v; want it allowed now", d, err)
			}
			_, d, err = s.Reserve(ctx, weir.K(), weir.Request{N: 1, MaxWait: weir.Never})
			if err != nil || !d.Allowed || d.StartAfter != 0 {
				t.Errorf("reserved: %+v, %v; want it allowed now", d, err)
			}
		}
		d, err := s.WaitN(ctx, weir.K(), 3)
		if !errors.Is(err, weir.ErrNever) || time.Since(start) != 0 {
			t.Errorf("more than ever fits: %v, %v", d, err)
		}
		deny := newStore(t, of(2), fallback.Deny)
		deny.Break(weirtest.Down())
		if _, err := deny.Wait(ctx, weir.K()); !errors.Is(err, weir.ErrUnavailable) || time.Since(start) != 0 {
			t.Errorf("Deny: %v after %v, want the store's error now", err, time.Since(start))
		}
	})
}

// TestShareMakesAppointments by its share, which hold and are cancelled in this process, also when
// the store is back.
func TestShareMakesAppointments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, of(4), fallback.Share, fallback.Instances(2))
		s.Break(weirtest.Down())
		start := time.Now()
		wait := func(want time.Duration) weir.Decision {
			t.Helper()
			d, err := s.Decide(ctx, weir.K(), weir.Request{N: 1, MaxWait: weir.Never})
			if err != nil || !d.Allowed || !d.Degraded || d.StartAfter != want {
				t.Errorf("%+v, %v; want it granted after %v", d, err, want)
			}
			return d
		}
		wait(0)
		wait(0)
		wait(time.Hour)
		wait(time.Hour)
		last := wait(2 * time.Hour)
		taken, err := s.Refund(ctx, weir.K(), last.At.Add(last.StartAfter), 1)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, taken, 1, "taken back from the share, during the outage")
		last = wait(2 * time.Hour)
		s.Restore()
		time.Sleep(time.Second) // the next call is a probe
		mustAllow(t, s.Limiter, weir.K())
		taken, err = s.Refund(ctx, weir.K(), last.At.Add(last.StartAfter), 1)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, taken, 1, "taken back from the share, when the store is back")

		// The store's own appointments are those of the store.
		if _, err := s.AllowN(ctx, weir.K(), 3); err != nil {
			t.Fatal(err)
		}
		ahead, err := s.Decide(ctx, weir.K(), weir.Request{N: 1, MaxWait: weir.Never})
		if err != nil {
			t.Fatal(err)
		}
		if ahead.Degraded || ahead.StartAfter != time.Hour {
			t.Errorf("of the store: %+v, want a wait of 1h", ahead)
		}
		n, err := s.Refund(ctx, weir.K(), ahead.At.Add(ahead.StartAfter), 1)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, n, 1, "taken back from the store")
		s.Break(weirtest.Down())
		begun := start.Add(time.Hour)
		if _, err := s.Refund(ctx, weir.K(), begun.Add(time.Microsecond), 1); err == nil {
			t.Error("an appointment that the share does not have was refunded")
		}

		own, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = s.Wait(own, weir.K())
		if !errors.Is(err, weir.ErrDeadline) || time.Since(start) > time.Minute {
			t.Errorf("a deadline before the share's instant: %v", err)
		}
	})
}
