package envoy

import (
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

// A client that waits for the time of its denial is granted, and not a microsecond before: no
// rolling second holds more than the limit, also across the edge of a calendar second.
func TestWaitsOfRollingWindowsAreExact(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, "domain: windows\ndescriptors: [{key: second, rate_limit: {unit: second, requests_per_unit: 20}}]"))
		for _, pass := range []time.Duration{700 * time.Millisecond, 299_999 * time.Microsecond, 1, 300 * time.Millisecond} {
			p.ask("second=x hits:5")
			c.pass(pass)
		}
		for range 8 {
			a := p.ask("second=x hits:5")
			if a.OverallCode == pb.RateLimitResponse_OK {
				continue
			}
			wait := a.Statuses[0].DurationUntilReset.AsDuration()
			c.pass(wait - time.Microsecond)
			if a := p.ask("second=x hits:5"); a.OverallCode == pb.RateLimitResponse_OK {
				t.Fatalf("granted a microsecond before the wait of %v was over", wait)
			}
			c.pass(time.Microsecond)
			if a := p.ask("second=x hits:5"); a.OverallCode != pb.RateLimitResponse_OK {
				t.Fatalf("denied after the wait of %v: %s", wait, brief(a))
			}
		}
	})
}

// A month is 30 days since 1970, as in the reference, or a calendar month.
func TestMonthsOfBothKinds(t *testing.T) {
	at := time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		windows Windows
		months  uint32
		ends    time.Time
	}{
		{CalendarMonth, 1, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)},
		{CalendarMonth, 3, time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)},
		{CalendarMonth, 12, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Fixed, 1, time.Unix(0, 0).Add(684 * 30 * 24 * time.Hour).UTC()},
	} {
		period, _ := envoyconf.Period(envoyconf.Month, c.months)
		number, ends := c.windows.at(at, envoyconf.Month, period)
		if !ends.Equal(c.ends) {
			t.Errorf("%v, %d months: the window of %v ends %v, want %v", c.windows, c.months, at, ends.UTC(), c.ends)
		}
		if next, _ := c.windows.at(ends, envoyconf.Month, period); next != number+1 {
			t.Errorf("%v, %d months: window %d is followed by %d", c.windows, c.months, number, next)
		}
		if last, _ := c.windows.at(ends.Add(-1), envoyconf.Month, period); last != number {
			t.Errorf("%v, %d months: window %d ends in %d", c.windows, c.months, number, last)
		}
	}
}
