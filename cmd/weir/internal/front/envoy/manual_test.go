package envoy

import (
	"fmt"
	"math"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

// TestExamplesOfTheManual decides by the examples of the reference's manual. Package envoyconf
// has a test of the rules that they match.
func TestExamplesOfTheManual(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, examples(t))
		granted := func(want int, domain string, descriptors ...string) {
			t.Helper()
			got := 0
			for _, d := range descriptors {
				got += p.in(domain).granted(want+1, d)
			}
			if got != want {
				t.Errorf("%s %v: %d granted, want %d", domain, descriptors, got, want)
			}
		}
		granted(500, "mongo_cps", "database=users")
		p.in("mongo_cps").wants("OK | OK", "database=other")

		two := p.in("messaging")
		for i := range 5 {
			two.wants(fmt.Sprintf("OK | OK %d/5 24h0m0s | OK %d/100 24h0m0s", 4-i, 99-i),
				"message_type=marketing,to_number=2061111111", "to_number=2061111111")
		}
		// The sixth is denied by one descriptor, and costs the other nothing.
		two.wants("OVER_LIMIT | OVER_LIMIT 0/5 24h0m0s | OK 95/100 24h0m0s",
			"message_type=marketing,to_number=2061111111", "to_number=2061111111")
		two.wants("OK | OK 94/100 24h0m0s", "to_number=2061111111")
		two.wants("OK | OK 4/5 24h0m0s", "message_type=marketing,to_number=2062222222")

		granted(10, "edge_proxy_per_ip", "remote_address=50.0.0.1")
		p.in("edge_proxy_per_ip").wants("OVER_LIMIT | OVER_LIMIT 0/0 1s", "remote_address=50.0.0.5")

		five := p.in("internal")
		a := five.ask("ldap=x")
		if s := a.Statuses[0]; s.Code != pb.RateLimitResponse_OK || s.LimitRemaining != math.MaxUint32 || s.CurrentLimit != nil || s.DurationUntilReset != nil {
			t.Errorf("example 5: %v, want OK, 2^32-1 remaining and no limit", s)
		}
		five.wants("OK | OK 99/100 1m0s | OK 4294967295", "azure=x", "ldap=y")

		for i := range 12 {
			p.in("example6").wants(fmt.Sprintf("OK | OK %d/10 1s", max(9-i, 0)), "service=auth-service,user=user-a")
		}
		granted(20, "example6", "service=auth-service,user=user-b")

		seven := p.in("example7")
		seven.wants("OK | OK 4/5 1s", "key_1=value_1,user=bkthomps")
		seven.wants("OK | OK 9/10 1s", "key_2=value_2,user=bkthomps")
		seven.wants("OK | OK | OK 8/10 1s", "key_1=value_1,user=bkthomps", "key_2=value_2,user=bkthomps")
		seven.wants("OK | OK 3/5 1s", "key_1=value_1,user=bkthomps") // not charged while it was replaced

		nine := p.in("example9")
		nine.wants("OK | OK 19/20 1m0s", "key1=value1")
		nine.wants("OK | OK 19/20 1m0s", "key1=valueXYZ") // each value counts on its own
		nine.wants("OK | OK 18/20 1m0s", "key1=value1")

		granted(10, "example11", "files=files/a.pdf", "files=files/b.csv", "files=files/c.txt") // one threshold
		granted(20, "example11", "files_no_share=files_no_share/a.pdf", "files_no_share=files_no_share/b.csv")

		p.in("nobody").wants("OK | OK | OK", "a=b", "c=d limit:1/SECOND")
	})
}

// Rules with quota_mode deny only if all of them are over.
func TestQuotaRulesDenyOnlyTogether(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, `
domain: quota
descriptors:
  - {key: service, value: one, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: service, value: two, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 4}}
`))
		one, two, user := "service=one", "service=two", "user=ann"
		p.wants("OK | OK 0/1 1m0s | OK 1/2 1m0s | OK 3/4 1m0s", one, two, user)
		p.wants("OK | OVER_LIMIT 0/1 1m0s | OK 0/2 1m0s | OK 2/4 1m0s", one, two, user)
		// All of them are over: denied, and the user is not charged.
		p.wants("OVER_LIMIT | OVER_LIMIT 0/1 1m0s | OVER_LIMIT 0/2 1m0s | OK 2/4 1m0s", one, two, user)
		p.wants("OVER_LIMIT | OVER_LIMIT 0/1 1m0s", one)
		p.wants("OK | OK 1/4 1m0s", user)
		p.wants("OK | OK 0/4 1m0s", user)
		// Another rule denies: no quota is charged.
		c.pass(time.Minute)
		p.wants("OK | OK 3/4 1m0s", user)
		p.wants("OVER_LIMIT | OK 1/1 0s | OK 2/2 0s | OVER_LIMIT 3/4 1m0s", one, two, user+" hits:4")
		p.wants("OK | OK 0/1 1m0s", one)
	})
}

// A shadow rule denies nothing, and is charged with granted hits.
func TestShadowRuleDeniesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, `
domain: shadow
descriptors:
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}
`))
		p.wants("OK | OK 0/1 1m0s | OK 2/3 1m0s", "watched=x", "user=ann")
		p.wants("OK | OK 0/1 1m0s | OK 1/3 1m0s", "watched=x", "user=ann")
		p.wants("OK | OK 0/1 1m0s | OK 0/3 1m0s", "watched=y", "user=ann")
		// Denied hits are not charged to a shadow rule.
		p.wants("OVER_LIMIT | OK 1/1 0s | OVER_LIMIT 0/3 1m0s", "watched=z", "user=ann")
		p.wants("OK | OK 0/1 1m0s", "watched=z")
		l := (*p.service.domains.Load())["shadow"].limits[0]
		if got := l.tally.Shadowed.Load(); got != 1 {
			t.Errorf("%d hits counted as shadowed, want 1", got)
		}
	})
}

const windowsConfig = `
domain: windows
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 20}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 3}}
  - {key: quarter, rate_limit: {unit: month, requests_per_unit: 3, unit_multiplier: 3}}
`

// A client that waits for the time of its denial is granted, and not a microsecond before: no
// rolling second holds more than the limit, also across the edge of a calendar second.
func TestWaitsOfRollingWindowsAreExact(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, windowsConfig))
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

// fixed sets the reference's windows, on the clock of the test.
func fixed(c *clocked, w Windows) func(*Options) {
	return func(o *Options) { o.Windows, o.Now = w, c.at }
}

// With --envoy-windows fixed, windows follow the calendar: twice the limit passes across
// an edge, and the count is reset there.
func TestFixedWindowsFollowTheCalendar(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, windowsConfig), fixed(c, Fixed))
		c.now = time.Date(2026, 11, 20, 13, 7, 58, 0, time.UTC).UnixMicro()
		for i := range 3 {
			p.wants(fmt.Sprintf("OK | OK %d/3 2s", 2-i), "minute=x")
		}
		p.wants("OVER_LIMIT | OVER_LIMIT 0/3 2s", "minute=x")
		c.pass(2*time.Second - time.Microsecond)
		p.wants("OVER_LIMIT | OVER_LIMIT 0/3 1µs", "minute=x")
		c.pass(time.Microsecond)
		for i := range 3 {
			p.wants(fmt.Sprintf("OK | OK %d/3 1m0s", 2-i), "minute=x")
		}
		p.wants("OVER_LIMIT | OVER_LIMIT 0/3 1m0s", "minute=x")
		// Hits at the beginning of a window count until its end.
		c.pass(time.Minute - time.Microsecond)
		p.wants("OVER_LIMIT | OVER_LIMIT 0/3 1µs", "minute=x")
		p.wants("OVER_LIMIT | OVER_LIMIT 3/3 1µs", "minute=y hits:4")
		p.wants("OK | OK 1/2 1µs", "minute=x limit:2/MINUTE")
		p.wants("OK | OK 0/3 1µs", "minute=z hits:3")
		p.wants("OK | OK 2/3 1µs", "minute=z refund hits:2")
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
