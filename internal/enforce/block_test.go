package enforce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirtest"
)

const blocking = `version: 1
policies:
  guard: {limit: "2 per minute per user, then block 10m"}
  long: {limit: "2 per hour per user, then block 1m"}
  login:
    limits: {account: "2 failures per minute per account, then block 10m", ip: 3 failures per minute per ip}
    count: reported
  both:
    limits:
      user:   "2 per minute per tenant per user, then block 10m"
      tenant: "4 per minute per tenant, then block 5m"
      all:    100 per minute
  anchor:
    limits: {user: "1 per minute per user, then block 10m", anchor: "2 per minute, then block 1m", ip: "3 per minute per ip, then block 3m"}
  part: {limit: "3 per minute, then block 10m", batch: partial}
  counted: {limit: "2 per minute per user, then block 10m", denied: counted}
  shadow: {limit: "2 per minute per user, then block 10m", shadow: true}
  bucket:
    limit: 60 per minute per user, burst 2, then block 10m
    plan-by: plan
    plans: {pro: "7 per minute, burst 2"}
  plans:
    limit: 1 per minute per user, then block 10m
    plan-by: plan
    plans: {pro: 2 per minute}
    overrides: [{for: {user: root}, limit: 5 per minute, until: forever, why: hers}]
  share: {limit: "2 per minute per user, then block 10m", when-store-is-down: share}
  open: {limit: "2 per minute per user, then block 10m", when-store-is-down: allow}
`

func blockingRule(t testing.TB, name string, e engine.Engine) *Rule {
	t.Helper()
	return named(rulesOf(t, blocking, e), name)
}

// attempt attempts units for the key u now.
func attempt(t testing.TB, r *Rule, n int64) Outcome {
	t.Helper()
	o, err := r.Decide(context.Background(), &Request{Target: r.TargetOfKey(weir.K("u"), 0), N: n})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// onEach runs a test on memory and on Redis.
func onEach(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Run("memory", func(t *testing.T) { test(t, weir.NewMemory()) })
	t.Run("redis", func(t *testing.T) { test(t, onRedis(t, redistest.Start(t).Conn(t))) })
}

func onRedis(t *testing.T, conn weirredis.Conn) engine.Engine {
	e, err := weirredis.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// teller decides requests in virtual time and compares the outcomes.
type teller struct {
	*testing.T
	*Rule
}

// brief returns an answer in one line: allowed with the units granted, or denied with the
// limit and the wait; then the end of a block.
func brief(o *Outcome) string {
	d := &o.Decision
	if o.Applied.Shadow {
		d = &o.Applied.Would
	}
	s := fmt.Sprintf("denied by %s for %v", d.Limit, d.RetryAfter)
	if d.Allowed {
		s = fmt.Sprintf("allowed %d, %v", d.Granted, d.RetryAfter)
	}
	if !o.Applied.Blocked.IsZero() {
		s += fmt.Sprintf(", until %v", o.Applied.Blocked.Sub(start))
	}
	return s
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// wants decides for the words of a subject at a time after the start, and compares the
// outcome.
func (r teller) wants(op weir.Op, after time.Duration, words string, n int64, want string) Outcome {
	r.Helper()
	return r.wantsID(op, after, words, n, "", want)
}

func (r teller) wantsID(op weir.Op, after time.Duration, words string, n int64, id, want string) Outcome {
	r.Helper()
	whose, err := subject(r.T, r.Rule, words)
	if err != nil {
		r.Fatal(err)
	}
	states := make([]weir.LimitState, len(r.Limits))
	o, err := r.Decide(context.Background(), &Request{Target: whose, Op: op, N: n, At: start.Add(after), States: states, ID: id})
	if err != nil {
		r.Fatal(err)
	}
	if got := brief(&o); got != want {
		r.Errorf("%v at %v of %d by %s: got %q, want %q", op, after, n, words, got, want)
	}
	if d := o.Decision; !r.Shadow && !o.Applied.Blocked.IsZero() {
		rest := o.Applied.Blocked.Sub(d.At)
		if d.Remaining > 0 || d.ResetAfter < rest {
			r.Errorf("%v at %v: %d remain, reset after %v; want none for %v", op, after, d.Remaining, d.ResetAfter, rest)
		}
	}
	return o
}

const (
	check  = weir.OpAttempt
	peek   = weir.OpPeek
	record = weir.OpRecord
	us     = time.Microsecond
)

// TestDenialBeginsABlock: a denied attempt begins a block of exact length. Later attempts
// do not change it, and each key has its own.
func TestDenialBeginsABlock(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "guard", e)}
		r.wants(check, 0, "user=u", 2, "allowed 2, 1m0s")
		r.wants(peek, time.Second, "user=u", 1, "denied by limit for 59s")
		r.wants(check, time.Second, "user=u", 0, "allowed 0, 0s")
		r.wants(check, 2*time.Second, "user=u", 1, "denied by limit for 10m0s, until 10m2s")
		r.wants(check, 3*time.Second, "user=u", 1, "denied by limit for 9m59s, until 10m2s")
		r.wants(peek, 5*time.Minute, "user=u", 2, "denied by limit for 5m2s, until 10m2s")
		r.wants(check, 5*time.Minute, "user=u", 0, "denied by limit for 5m2s, until 10m2s")
		r.wants(check, 5*time.Minute, "user=u", 3, "denied by limit for -1ns, until 10m2s")
		r.wants(check, 5*time.Minute, "user=other", 1, "allowed 1, 0s")
		r.wants(check, 10*time.Minute+2*time.Second-us, "user=u", 1, "denied by limit for 1µs, until 10m2s")
		r.wants(peek, 10*time.Minute+2*time.Second, "user=u", 2, "allowed 2, 0s")
		r.wants(check, 10*time.Minute+2*time.Second, "user=u", 2, "allowed 2, 1m0s")
		r.wants(record, 10*time.Minute+2*time.Second, "user=u", 1, "allowed 1, 1m0s")
		r.wants(check, 10*time.Minute+2*time.Second, "user=u", 0, "denied by limit for 1m0s") // which is a look
		r.wants(check, 10*time.Minute+3*time.Second, "user=u", 1, "denied by limit for 10m0s, until 20m3s")
	})
}

// TestWaitOfABlockIsExact: the wait is the longer one of the block and the limits. An
// attempt after it is granted; a microsecond earlier it is denied (R8).
func TestWaitOfABlockIsExact(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "long", e)}
		r.wants(check, 0, "user=u", 1, "allowed 1, 0s")
		r.wants(check, 30*time.Minute, "user=u", 1, "allowed 1, 30m0s")
		r.wants(check, 31*time.Minute, "user=u", 1, "denied by limit for 29m0s, until 32m0s")
		r.wants(peek, 31*time.Minute+30*time.Second, "user=u", 2, "denied by limit for 58m30s, until 32m0s")
		r.wants(record, 31*time.Minute+30*time.Second, "user=u", 1, "allowed 1, 58m30s, until 32m0s")
		r.wants(peek, 90*time.Minute-us, "user=u", 1, "denied by limit for 1µs")
		r.wants(check, 90*time.Minute, "user=u", 1, "allowed 1, 1m30s")
		o := r.wants(check, 90*time.Minute+time.Second, "user=u", 1, "denied by limit for 1m29s, until 1h31m1s")
		if !o.Applied.Blocked.Equal(start.Add(91*time.Minute + time.Second)) {
			t.Errorf("until %v", o.Applied.Blocked)
		}
	})
}

// TestResetEndsABlock: a reset ends a block.
func TestResetEndsABlock(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "guard", e)}
		r.wants(check, 0, "user=u", 2, "allowed 2, 1m0s")
		r.wants(check, 0, "user=u", 1, "denied by limit for 10m0s, until 10m0s")
		if err := reset(r.Rule, weir.K("u")); err != nil {
			t.Fatal(err)
		}
		r.wants(peek, 0, "user=u", 2, "allowed 2, 0s")
	})
}

// TestReportsBeginNoBlock: if reports are charged, a denied check begins a block, and a
// record never does.
func TestReportsBeginNoBlock(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "login", e)}
		r.wants(check, 0, "account=a ip=i", 1, "allowed 1, 0s")
		r.wants(record, 0, "account=a ip=i", 1, "allowed 1, 0s")
		r.wants(record, 0, "account=a ip=i", 1, "allowed 1, 1m0s")
		r.wants(peek, 0, "account=a ip=i", 1, "denied by account for 1m0s")
		r.wants(check, time.Second, "account=a ip=i", 1, "denied by account for 10m0s, until 10m1s")
		r.wants(check, 2*time.Minute, "account=a ip=j", 1, "denied by account for 8m1s, until 10m1s")
		r.wants(check, 2*time.Minute, "account=b ip=i", 3, "denied by account for -1ns, until 12m0s")
		r.wants(record, 3*time.Minute, "account=c ip=i", 2, "allowed 2, 1m0s")
		r.wants(record, 3*time.Minute, "account=d ip=i", 1, "allowed 1, 1m0s")
		r.wants(check, 3*time.Minute, "account=e ip=i", 1, "denied by ip for 1m0s") // which does not block
		r.wants(check, 4*time.Minute, "account=c ip=i", 1, "allowed 1, 0s")
		r.wants(check, 10*time.Minute+time.Second, "account=a ip=i", 1, "allowed 1, 0s")
	})
}

// TestLimitsHaveTheirOwnBlocks: limits with different dimensions have separate blocks,
// also on a Redis Cluster, where each is found in any request.
func TestLimitsHaveTheirOwnBlocks(t *testing.T) {
	t.Parallel() // a Cluster starts in seconds
	test := func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "both", e)}
		r.wants(check, 0, "tenant=t user=u", 2, "allowed 2, 1m0s")
		r.wants(check, 0, "tenant=t user=u", 1, "denied by user for 10m0s, until 10m0s")
		r.wants(check, 0, "tenant=t user=v", 2, "allowed 2, 1m0s")
		r.wants(check, time.Second, "tenant=t user=w", 1, "denied by tenant for 5m0s, until 5m1s")
		r.wants(peek, 2*time.Minute, "tenant=t user=v", 1, "denied by tenant for 3m1s, until 5m1s")
		r.wants(peek, 2*time.Minute, "tenant=t user=u", 1, "denied by user for 8m0s, until 10m0s")
		r.wants(check, 5*time.Minute+time.Second, "tenant=t user=v", 1, "allowed 1, 0s")
		r.wants(check, 5*time.Minute+time.Second, "tenant=t user=u", 1, "denied by user for 4m59s, until 10m0s")
		r.wants(check, 0, "tenant=o user=u", 1, "allowed 1, 0s")

		// Limits without a key in common, one of which has the name of the helper.
		r = teller{t, blockingRule(t, "anchor", e)}
		r.wants(check, 0, "user=u ip=i", 1, "allowed 1, 1m0s")
		r.wants(check, 0, "user=u ip=i", 1, "denied by user for 10m0s, until 10m0s")
		r.wants(check, 0, "user=v ip=i", 1, "allowed 1, 1m0s")
		r.wants(check, 0, "user=w ip=j", 1, "denied by anchor for 1m0s, until 1m0s")
		r.wants(check, time.Minute, "user=w ip=j", 1, "allowed 1, 1m0s")
		r.wants(check, time.Minute, "user=u ip=j", 1, "denied by user for 9m0s, until 10m0s")
	}
	onEach(t, test)
	t.Run("cluster", func(t *testing.T) { test(t, onRedis(t, redistest.StartCluster(t).Conn(t))) })
}

// TestBlocksOutliveChangesOfOtherLimits: a running block continues when other blocking
// limits are added or removed, also on a Cluster.
func TestBlocksOutliveChangesOfOtherLimits(t *testing.T) {
	t.Parallel() // a Cluster starts in seconds
	test := func(t *testing.T, e engine.Engine) {
		r := teller{t, ruleOf(t, e, `{user: "1 per minute per tenant per user, then block 10m", tenant: 9 per minute per tenant, ip: 9 per minute per ip}`)}
		r.wants(check, 0, "tenant=t user=u ip=i", 1, "allowed 1, 1m0s")
		r.wants(check, 0, "tenant=t user=u ip=i", 1, "denied by user for 10m0s, until 10m0s")
		for _, limits := range []string{
			`{user: "1 per minute per tenant per user, then block 10m", tenant: "9 per minute per tenant, then block 1m", ip: 9 per minute per ip}`,
			`{ip: "9 per minute per ip, then block 1h", user: "1 per minute per tenant per user, then block 10m", tenant: 9 per minute per tenant}`,
		} {
			r = teller{t, ruleOf(t, e, limits)}
			r.wants(check, 2*time.Minute, "tenant=t user=u ip=j", 1, "denied by user for 8m0s, until 10m0s")
			r.wants(peek, 10*time.Minute, "tenant=t user=u ip=j", 1, "allowed 1, 0s")
		}
	}
	onEach(t, test)
	t.Run("cluster", func(t *testing.T) { test(t, onRedis(t, redistest.StartCluster(t).Conn(t))) })
}

// ruleOf is a policy p of those limits.
func ruleOf(t *testing.T, e engine.Engine, limits string) *Rule {
	t.Helper()
	return rulesOf(t, "version: 1\npolicies:\n  p: {limits: "+limits+"}\n", e)[0]
}

// TestPartialGrantBeginsNoBlock: a partial grant begins no block; a counted denial begins
// one.
func TestPartialGrantBeginsNoBlock(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "part", e)}
		r.wants(check, 0, "", 5, "allowed 3, -1ns")
		r.wants(check, 0, "", 2, "denied by limit for 10m0s, until 10m0s")
		r.wants(check, 2*time.Minute, "", 2, "denied by limit for 8m0s, until 10m0s")
		r.wants(check, 10*time.Minute, "", 2, "allowed 2, 1m0s")

		r = teller{t, blockingRule(t, "counted", e)}
		r.wants(check, 0, "user=u", 2, "allowed 2, 1m0s")
		r.wants(check, 59*time.Second, "user=u", 1, "denied by limit for 10m0s, until 10m59s")
		r.wants(check, 10*time.Minute+58*time.Second, "user=u", 2, "denied by limit for 1s, until 10m59s") // and is not counted
		r.wants(check, 10*time.Minute+59*time.Second, "user=u", 2, "allowed 2, 1m0s")

		r = teller{t, blockingRule(t, "shadow", e)}
		r.wants(check, 0, "user=u", 2, "allowed 2, 1m0s")
		o := r.wants(check, 0, "user=u", 1, "denied by limit for 10m0s, until 10m0s")
		o2 := r.wants(check, 2*time.Minute, "user=u", 1, "denied by limit for 8m0s, until 10m0s")
		if !o.Decision.Allowed || !o2.Decision.Allowed || o2.Decision.Granted != 1 {
			t.Errorf("a shadow enforced: %+v, %+v", o.Decision, o2.Decision)
		}

		r = teller{t, blockingRule(t, "plans", e)}
		r.wants(check, 0, "user=u plan=pro", 2, "allowed 2, 1m0s")
		r.wants(check, 0, "user=u plan=pro", 1, "denied by limit for 10m0s, until 10m0s")
		r.wants(check, 2*time.Minute, "user=u", 1, "denied by limit for 8m0s, until 10m0s")
		r.wants(check, 0, "user=root", 5, "allowed 5, 1m0s")
		r.wants(check, 0, "user=root", 1, "denied by limit for 10m0s, until 10m0s")
	})
}

// TestRepeatedGrantIgnoresTheBlock: an operation that was granted gets its grant again
// during a block. A new one is denied, and can be tried again later.
func TestRepeatedGrantIgnoresTheBlock(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "guard", e)}
		r.wantsID(check, 0, "user=u", 2, "first", "allowed 2, 1m0s")
		r.wantsID(check, 0, "user=u", 1, "second", "denied by limit for 10m0s, until 10m0s")
		if o := r.wantsID(check, 30*time.Second, "user=u", 2, "first", "allowed 2, 1m0s"); !o.Decision.Replayed {
			t.Errorf("not repeated: %+v", o.Decision)
		}
		r.wantsID(check, 30*time.Second, "user=u", 1, "second", "denied by limit for 9m30s, until 10m0s")
		r.wantsID(check, 10*time.Minute, "user=u", 1, "second", "allowed 1, 0s")
		r.wantsID(check, 10*time.Minute, "user=u", 1, "third", "allowed 1, 1m0s")
		whose, _ := subject(t, r.Rule, "user=u")
		r.wants(check, 10*time.Minute, "user=u", 1, "denied by limit for 10m0s, until 20m0s")
		_, err := r.Decide(context.Background(), &Request{Target: whose, N: 2, At: start.Add(10 * time.Minute), ID: "third"})
		if !errors.Is(err, &weir.InputError{Field: "id"}) {
			t.Errorf("the id of another operation: %v", err)
		}
	})
}

// TestRepeatedGrantOfABucket: a bucket can block. The repetition of an earlier operation, and
// of one that was denied, leaves the bucket of a plan as it is (R4).
func TestRepeatedGrantOfABucket(t *testing.T) {
	onEach(t, func(t *testing.T, e engine.Engine) {
		r := teller{t, blockingRule(t, "bucket", e)}
		for _, user := range []string{"user=u plan=pro", "user=v plan=pro"} {
			r.wantsID(check, 0, user, 2, "first", "allowed 2, 17.142858s")
			r.wants(check, 0, user, 1, "denied by limit for 10m0s, until 10m0s")
		}
		if o := r.wantsID(check, 5*time.Second, "user=u plan=pro", 2, "first", "allowed 2, 17.142858s"); !o.Decision.Replayed {
			t.Errorf("not repeated: %+v", o.Decision)
		}
		r.wantsID(check, 5*time.Second, "user=u plan=pro", 1, "second", "denied by limit for 9m55s, until 10m0s")
		var states [2]weir.LimitState
		for i, user := range []string{"user=u plan=pro", "user=v plan=pro"} {
			whose, _ := subject(t, r.Rule, user)
			limiter := r.Limiter(&whose, time.Time{})
			if _, err := limiter.Decide(context.Background(), whose.Key, weir.Request{Op: weir.OpPeek, N: 2, At: start.Add(6 * time.Second), States: states[i : i+1]}); err != nil {
				t.Fatal(err)
			}
		}
		if states[0] != states[1] || states[0].Used != 2 {
			t.Errorf("after repetitions: %+v, without them %+v", states[0], states[1])
		}
	})
}

// slow is an engine that delays every decision except those of blocks.
type slow struct{ engine.Engine }

func (s slow) Do(ctx context.Context, calls []engine.Call) {
	if calls[0].Rules.Name == "guard" {
		time.Sleep(time.Second)
	}
	s.Engine.Do(ctx, calls)
}

// TestBlockThatEndsMeanwhileDeniesNothing: a block that has ended before the limits are
// decided denies nothing.
func TestBlockThatEndsMeanwhileDeniesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := blockingRule(t, "guard", slow{weir.NewMemory()})
		decide := func(n int64) Outcome { return attempt(t, r, n) }
		decide(2)
		if o := decide(1); o.Decision.RetryAfter != 10*time.Minute {
			t.Errorf("%+v, want a block", o)
		}
		time.Sleep(10*time.Minute - 1500*time.Millisecond)
		if o := decide(1); o.Decision.Allowed || o.Decision.RetryAfter != 500*time.Millisecond {
			t.Errorf("%+v, want the rest of the block at the instant of the limits", o)
		}
		if o := decide(1); !o.Decision.Allowed || !o.Applied.Blocked.IsZero() {
			t.Errorf("%+v, want it granted", o)
		}
	})
}

// TestBlocksDenyNothingInAnOutage: during an outage the mode of the policy decides, and
// blocks deny nothing.
func TestBlocksDenyNothingInAnOutage(t *testing.T) {
	f := fallback.New(down{}, fallback.Deny, fallback.Instances(3))
	for name, want := range map[string]int64{"share": 0, "open": 1} {
		r := blockingRule(t, name, f)
		o, err := r.Decide(context.Background(), &Request{Target: r.TargetOfKey(weir.K("u"), 0), N: 1, At: at("2026-01-01")})
		if err != nil || o.Decision.Granted != want || !o.Decision.Degraded || !o.Applied.Blocked.IsZero() {
			t.Errorf("%s: %+v, %v; want %d granted and no block", name, o, err, want)
		}
	}
	share := fallback.New(down{}, fallback.Share, fallback.Instances(2))
	r := blockingRule(t, "share", share)
	if o, err := r.Decide(context.Background(), &Request{Target: r.TargetOfKey(weir.K("u"), 0), N: 1, At: at("2026-01-01")}); err != nil || !o.Decision.Allowed {
		t.Errorf("one of a share of one: %+v, %v", o, err)
	}
	r = blockingRule(t, "guard", f)
	if o, err := r.Decide(context.Background(), &Request{Target: r.TargetOfKey(weir.K("u"), 0), N: 1, At: at("2026-01-01")}); err == nil || o.Decision.Allowed {
		t.Errorf("deny: %+v, %v", o, err)
	}
}

// TestShareDenialBeginsNoBlock: a denial by a share begins no block in the store.
func TestShareDenialBeginsNoBlock(t *testing.T) {
	faulty := weirtest.NewFaulty(weir.NewMemory())
	f := fallback.New(limits{faulty}, fallback.Share, fallback.Instances(2), fallback.FailureThreshold(0))
	r := blockingRule(t, "share", f)
	ask := Request{Target: r.TargetOfKey(weir.K("u"), 0), N: 2, At: at("2026-01-01")}
	faulty.Break(weirtest.Down())
	if o, err := r.Decide(context.Background(), &ask); err != nil || o.Decision.Allowed || !o.Decision.Degraded || !o.Applied.Blocked.IsZero() {
		t.Errorf("2 of a share of 1, while the store decides only blocks: %+v, %v", o, err)
	}
	faulty.Restore()
	if o, err := r.Decide(context.Background(), &ask); err != nil || o.Decision.Granted != 2 {
		t.Errorf("the store is back: %+v, %v", o, err)
	}
}

// TestReplayWhileBlocked: an operation that a share has granted gets its answer again,
// even if the store is back and the key is blocked there.
func TestReplayWhileBlocked(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	r := blockingRule(t, "share", fallback.New(store, fallback.Share, fallback.FailureThreshold(0)))
	job := func() Outcome {
		t.Helper()
		o, err := r.Decide(context.Background(), &Request{Target: r.TargetOfKey(weir.K("u"), 0), N: 1, ID: "job"})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	store.Break(weirtest.Down())
	if o := job(); !o.Decision.Allowed || !o.Decision.Degraded {
		t.Fatalf("by the share: %+v", o)
	}
	store.Restore()
	for range 3 {
		attempt(t, r, 2)
	}
	if o := attempt(t, r, 1); o.Applied.Blocked.IsZero() {
		t.Fatalf("no block: %+v", o)
	}
	if o := job(); !o.Decision.Replayed || !o.Decision.Allowed {
		t.Errorf("the same operation again: %+v", o.Decision)
	}
}

// limits is a store that fails for limits and works for their blocks.
type limits struct{ *weirtest.Faulty }

var blocksOf = weir.NewMemory()

func (e limits) Do(ctx context.Context, calls []engine.Call) {
	if strings.HasSuffix(calls[0].Rules.Name, ".block") {
		blocksOf.Do(ctx, calls)
		return
	}
	e.Faulty.Do(ctx, calls)
}

// TestBadInputNamesThePolicy: errors name the policy, not its blocks (R14).
func TestBadInputNamesThePolicy(t *testing.T) {
	r := blockingRule(t, "both", weir.NewMemory())
	for _, a := range []Request{
		{Target: Target{weir.K("t"), 0}, N: 1},
		{Target: Target{weir.K("t", strings.Repeat("x", 1025)), 0}, N: 1},
		{Target: Target{weir.K("t", "u"), 0}, N: -1},
	} {
		if o, err := r.Decide(context.Background(), &a); err == nil || strings.Contains(err.Error(), ".block") {
			t.Errorf("%+v: %+v, %v", a, o, err)
		}
	}
	if err := reset(r, weir.K("t")); !errors.Is(err, &weir.InputError{Field: "key"}) || strings.Contains(err.Error(), ".block") {
		t.Errorf("a reset: %v", err)
	}
}
