package envoy

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
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

// An override by months of the calendar and one by 30 days have histories of their own.
func TestOverridesOfMonths(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		c.now = time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC).UnixMicro()
		p := connect(t, c, parse(t, months), func(o *Options) { o.Windows = CalendarMonth })
		p.wants("OK | OK 4/5 456h0m0s", "month=x limit:5/MONTH")
		p.wants("OK | OK 4/5 624h0m0s", "month=x limit:5/DAY*30")
	})
}

// months is a configuration with a window of one month and one of three.
const months = `
domain: windows
descriptors:
  - {key: month, rate_limit: {unit: month, requests_per_unit: 3}}
  - {key: quarter, rate_limit: {unit: month, requests_per_unit: 3, unit_multiplier: 3}}
`

// A month is 30 days since 1970, as in the reference, or a calendar month.
func TestMonthsOfBothKinds(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		at := time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC)
		c.now = at.UnixMicro()
		const month = 30 * 24 * time.Hour
		for _, w := range []struct {
			windows Windows
			key     string
			ends    time.Time
		}{
			{CalendarMonth, "month", time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)},
			{CalendarMonth, "quarter", time.Unix(0, 0).Add(228 * 3 * month)},
			{Fixed, "month", time.Unix(0, 0).Add(684 * month)},
			{Fixed, "quarter", time.Unix(0, 0).Add(228 * 3 * month)},
		} {
			p := connect(t, c, parse(t, months), func(o *Options) { o.Windows = w.windows })
			p.wants(fmt.Sprintf("OK | OK 2/3 %v", w.ends.Sub(at)), fmt.Sprintf("%s=%v", w.key, w.windows))
		}
	})
}
