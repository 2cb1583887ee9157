package envoy

import (
	"fmt"
	"math"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// TestExamplesOfTheManual runs the examples of the reference's manual, in its order.
func TestExamplesOfTheManual(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, examples(t))

		one := p.in("mongo_cps")
		if got := one.granted(501, "database=users"); got != 500 {
			t.Errorf("example 1: %d granted, want 500", got)
		}
		one.wants("OK | OK 499/500 1s", "database=default")
		one.wants("OK | OK", "database=other")

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

		three := p.in("edge_proxy_per_ip")
		if got := three.granted(11, "remote_address=50.0.0.1"); got != 10 {
			t.Errorf("example 3: %d granted, want 10", got)
		}
		three.wants("OVER_LIMIT | OVER_LIMIT 0/0 1s", "remote_address=50.0.0.5")

		four := p.in("example4")
		four.wants("OK | OK", "key=value,subkey=subvalue")
		four.wants("OK | OK 299/300 1s", "deep=value,subkey=subvalue")

		five := p.in("internal")
		a := five.ask("ldap=x")
		if s := a.Statuses[0]; s.Code != pb.RateLimitResponse_OK || s.LimitRemaining != math.MaxUint32 || s.CurrentLimit != nil || s.DurationUntilReset != nil {
			t.Errorf("example 5: %v, want OK, 2^32-1 remaining and no limit", s)
		}
		five.wants("OK | OK 99/100 1m0s | OK 4294967295", "azure=x", "ldap=y")

		six := p.in("example6")
		for i := range 12 {
			six.wants(fmt.Sprintf("OK | OK %d/10 1s", max(9-i, 0)), "service=auth-service,user=user-a")
		}
		if got := six.granted(21, "service=auth-service,user=user-b"); got != 20 {
			t.Errorf("example 6: %d granted, want 20", got)
		}

		seven := p.in("example7")
		seven.wants("OK | OK 4/5 1s", "key_1=value_1,user=bkthomps")
		seven.wants("OK | OK 9/10 1s", "key_2=value_2,user=bkthomps")
		seven.wants("OK | OK | OK 8/10 1s", "key_1=value_1,user=bkthomps", "key_2=value_2,user=bkthomps")
		seven.wants("OK | OK 3/5 1s", "key_1=value_1,user=bkthomps") // not charged while it was replaced

		eight := p.in("example8")
		eight.wants("OK | OK 9/10 1m0s", "key1=unspecified_value")
		eight.wants("OK | OK 9/10 1m0s", "key1=unspecified_value2")
		eight.wants("OK | OK 19/20 1m0s", "key1=value1")

		nine := p.in("example9")
		nine.wants("OK | OK 19/20 1m0s", "key1=value1")
		nine.wants("OK | OK 19/20 1m0s", "key1=valueXYZ") // each value counts on its own
		nine.wants("OK | OK 18/20 1m0s", "key1=value1")
		nine.wants("OK | OK 19/20 1m0s", "path=/api/123/action")
		nine.wants("OK | OK", "path=/api/123/other")
		nine.wants("OK | OK 19/20 1m0s", "route=/api/v1/resource/123/action")

		ten := p.in("example10")
		ten.wants("OK | OK 59/60 1m0s", "route=api,http_method=GET,subject_id=123")
		ten.wants("OK | OK 59/60 1m0s", "route=web,http_method=POST,subject_id=456")
		ten.wants("OK | OK 99/100 1m0s", "user=alice,action=readfile,resource=documents")

		eleven := p.in("example11")
		if got := eleven.granted(5, "files=files/a.pdf") + eleven.granted(5, "files=files/b.csv") + eleven.granted(5, "files=files/c.txt"); got != 10 {
			t.Errorf("example 11: %d granted of the shared threshold, want 10", got)
		}
		if got := eleven.granted(15, "files_no_share=files_no_share/a.pdf") + eleven.granted(15, "files_no_share=files_no_share/b.csv"); got != 20 {
			t.Errorf("example 11: %d granted of two thresholds, want 20", got)
		}

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
