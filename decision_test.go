package weir

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestDecisionString: a decision gives its reason in one sentence.
func TestDecisionString(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	for want, d := range map[string]Decision{
		"no decision":               {},
		"allowed: 3 left":           {Allowed: true, Granted: 1, Remaining: 3, At: now},
		"allowed: 2 over the limit": {Allowed: true, Granted: 5, Remaining: -2, At: now, RetryAfter: time.Second},
		`allowed 2 units, cut by limit "day": room again in 3h0m0s`: {Allowed: true, Granted: 2, At: now, Limit: "day", RetryAfter: 3 * time.Hour},
		`allowed 2 units, cut by limit "day": it never fits`:        {Allowed: true, Granted: 2, At: now, Limit: "day", RetryAfter: Never},
		`denied by limit "minute": room again in 12s`:               {At: now, Limit: "minute", RetryAfter: 12 * time.Second},
		`denied by limit "minute": room again in 6m51.999001s`:      {At: now, Limit: "minute", RetryAfter: 411_999_001 * time.Microsecond},
		`denied by limit "minute": it never fits`:                   {At: now, Limit: "minute", RetryAfter: Never},
		"denied: retry later; decided without the store":            {At: now, Degraded: true},
		`denied by limit "m": 2 of 2 used in the last minute; it never fits`: {
			At: now, Limit: "m", RetryAfter: Never, Max: 2, Used: 2, Window: time.Minute},
		`denied by limit "m": 2 of 2 used in the last 1m30s; room again in 1s`: {
			At: now, Limit: "m", RetryAfter: time.Second, Max: 2, Used: 2, Window: 90 * time.Second},
		`denied by limit "d": 2 of 2 used in this window; room again in 1s`: {
			At: now, Limit: "d", RetryAfter: time.Second, Max: 2, Used: 2, Window: time.Hour, Kind: KindFixed},
		`denied by limit "b": 3 of 4 missing from the bucket; room again in 1s`: {
			At: now, Limit: "b", RetryAfter: time.Second, Max: 4, Used: 3, Window: time.Second, Kind: KindBucket},
		`denied by limit "c": 2 of 2 held; room again in 1s`: {
			At: now, Limit: "c", RetryAfter: time.Second, Max: 2, Used: 2, Window: time.Hour, Kind: KindConcurrency},
		"allowed; decided without the store": {Allowed: true, Granted: 1, At: now, Degraded: true},
		"allowed: 4 left; decided without the store": {Allowed: true, Granted: 1, Remaining: 4, At: now,
			ResetAfter: time.Second, Degraded: true},
		"allowed: 3 left; replayed, nothing was charged again":          {Allowed: true, Granted: 1, Remaining: 3, At: now, Replayed: true},
		`denied by limit "m": room again in 12s; from the denial cache`: {RetryAfter: 12 * time.Second, At: now, Limit: "m", Cached: true},
	} {
		assert.Equal(t, d.String(), want, "%#v", d)
	}
}

// TestReplayHasTheNumbersOfTheFirstDecision: the denial that is replayed was made by the numbers of
// its time (R15). Those of the present policy, or of a limit in place of it, would contradict it.
func TestReplayHasTheNumbersOfTheFirstDecision(t *testing.T) {
	m, at := NewMemory(), time.UnixMicro(1_700_000_000_000_000)
	on := func(limit Limit) *Limiter {
		policy := Policy{Name: "login", Mode: CountDenied, Limits: []Limit{limit}}
		return mustNew(t, policy, WithEngine(m)).At(at)
	}
	hour := Limit{Name: "hour", Max: 1, Window: time.Hour, By: []string{"user"}}
	first, err := on(hour).AllowOnce(ctx, K("ann"), 2, "one")
	if err != nil {
		t.Fatal(err)
	}
	if first.Allowed || first.Max != 1 || first.Window != time.Hour || first.Used != 1 {
		t.Fatalf("%+v, want a denial with the numbers of its limit", first)
	}
	want := first
	want.Replayed = true
	raised, day := hour, hour
	raised.Max, day.Name, day.Kind = 5, "day", KindFixed
	for _, now := range []Limit{hour, raised, day} {
		got, err := on(now).AllowOnce(ctx, K("ann"), 2, "one")
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, got, want, "under %+v", now)
	}
}
