package enforce

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirdisk"
	"github.com/weirlimit/weir/weirtest"
)

const waits = `version: 1
policies:
  mails:
    limit: 1 per 10s per user
    plan-by: plan
    plans: {pro: 2 per 10s}
    overrides:
      - {for: {user: slow}, limit: "2 per 10s, 4s apart", until: forever, why: slow}
  trial: {limit: 1 per 10s per user, shadow: true}
  login: {limit: "1 per 10s per user, then block 60s"}
  jobs: {limit: "1 at once per user, for at most 1m"}
  jobs-trial: {limit: "1 at once per user, for at most 1m", shadow: true}
  failures: {limit: 1 per 10s per user, count: reported}
  knocks: {limit: 1 per 10s per user, denied: counted}
  open: {limit: 1 per 10s per user, when-store-is-down: allow}
  share: {limit: 1 per 10s per user, when-store-is-down: share}
`

// onMemoryAndDisk runs a test on both engines of this process.
func onMemoryAndDisk(t *testing.T, test func(*testing.T, engine.Engine)) {
	t.Run("memory", func(t *testing.T) { test(t, weir.NewMemory()) })
	t.Run("disk", func(t *testing.T) {
		disk, err := weirdisk.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { must.Do(t, disk.Close()) }()
		test(t, disk)
	})
}

// waiter returns an attempt of one unit that may wait, some seconds after 2026-01-01.
func waiter(user string, plan, second int, most time.Duration) Request {
	return Request{
		Target:  Target{weir.K(user), plan},
		N:       1,
		At:      at("2026-01-01").Add(time.Duration(second) * time.Second),
		MaxWait: most,
	}
}

// TestPoliciesOfAFileWait: the numbers of plans and overrides decide the start, a shadow delays
// nobody, and a denial beyond the wait begins a block, which no wait passes (R18, R20).
func TestPoliciesOfAFileWait(t *testing.T) {
	onMemoryAndDisk(t, func(t *testing.T, e engine.Engine) {
		rules := rulesOf(t, waits, e)
		for _, c := range []struct {
			policy       string
			user         string
			plan, second int
			most, start  time.Duration
			allowed      bool
		}{
			{"mails", "ann", 0, 0, time.Minute, 0, true},
			{"mails", "ann", 0, 1, time.Minute, 9 * time.Second, true},
			{"mails", "ann", 0, 2, time.Minute, 18 * time.Second, true},
			{"mails", "ann", 0, 3, 26*time.Second + 999999*time.Microsecond, 0, false},
			{"mails", "ann", 1, 3, weir.Never, 17 * time.Second, true}, // two in ten seconds
			{"mails", "slow", 0, 0, 0, 0, true},
			{"mails", "slow", 0, 1, time.Minute, 3 * time.Second, true},
			{"mails", "slow", 0, 2, time.Minute, 8 * time.Second, true},
			{"trial", "ann", 0, 0, time.Minute, 0, true},
			{"trial", "ann", 0, 1, time.Minute, 0, true},
			{"login", "ann", 0, 0, 0, 0, true},
			{"login", "ann", 0, 1, 10 * time.Second, 9 * time.Second, true},
			{"login", "ann", 0, 2, 10 * time.Second, 0, false},  // begins a block
			{"login", "ann", 0, 40, 50 * time.Second, 0, false}, // meets it
		} {
			a := waiter(c.user, c.plan, c.second, c.most)
			o, err := named(rules, c.policy).Decide(context.Background(), &a)
			if err != nil || o.Allowed != c.allowed || o.StartAfter != c.start {
				t.Errorf("%+v: got %v after %v, %v", c, o.Allowed, o.StartAfter, err)
			}
			if c.policy == "trial" && c.second == 1 && o.Applied.Would.Allowed {
				t.Errorf("the shadow would allow: %+v", o)
			}
		}
	})
}

// TestReservationsOfAFileWait: the life of a reservation begins with its start, at an instant and
// in a batch, and its cancel before that leaves nothing.
func TestReservationsOfAFileWait(t *testing.T) {
	onMemoryAndDisk(t, func(t *testing.T, e engine.Engine) {
		rule, ctx := named(rulesOf(t, waits, e), "mails"), context.Background()
		now := waiter("ann", 0, 0, 0)
		mustDecide(t, rule, &now)
		items := []Item{{Rule: rule, Request: waiter("ann", 0, 1, time.Minute)}, {Rule: rule, Request: waiter("ann", 0, 1, time.Minute)}}
		for i := range items {
			items[i].Reserve, items[i].TTL = true, 5*time.Second
		}
		DecideAll(ctx, items)
		single := waiter("ann", 0, 1, time.Minute)
		single.Reserve, single.TTL = true, 5*time.Second
		last := Item{Rule: rule}
		last.Outcome, last.Err = rule.Decide(ctx, &single)
		for i, it := range append(items, last) {
			o, start := &it.Outcome, time.Duration(9+10*i)*time.Second
			expires := single.At.Add(start + 5*time.Second).UnixMicro()
			if it.Err != nil || o.StartAfter != start || o.Reserved.ExpiresAt != expires {
				t.Errorf("reservation %d: %+v, %v, want a start after %v", i, o, it.Err, start)
			}
			cancel := Request{Target: single.Target, Op: engine.Settle, ID: o.ReservedID, At: single.At}
			mustDecide(t, rule, &cancel)
		}
		again := waiter("ann", 0, 1, time.Minute)
		assert.Equal(t, mustDecide(t, rule, &again).StartAfter, 9*time.Second, "the start after all are cancelled")
	})
}

// TestWaitsOfAFileReject: a wait that cannot be is bad input, with the same words for one decision
// and for a batch, under a shadow too, and nothing changes (R14).
func TestWaitsOfAFileReject(t *testing.T) {
	m, ctx := weir.NewMemory(), context.Background()
	rules := rulesOf(t, waits, m)
	for _, c := range []struct {
		policy string
		op     engine.Op
		n      int64
		most   time.Duration
		text   string
	}{
		{"mails", engine.Attempt, 1, -time.Second, "MaxWait is -1s; use 0 to 9600h0m0s, or Never"},
		{"mails", engine.Attempt, 0, -time.Second, "MaxWait is -1s; use 0 to 9600h0m0s, or Never"},
		{"trial", engine.Attempt, 1, weir.MaxWindow + 1, "MaxWait is 9600h0m0.000000001s; use 0 to 9600h0m0s, or Never"},
		{"mails", engine.Peek, 1, 1, "MaxWait is for attempts; leave it out of other operations"},
		{"mails", engine.Refund, 1, 1, "MaxWait is for attempts; leave it out of other operations"},
		{"mails", engine.Count, 1, 1, "MaxWait is for attempts; leave it out of other operations"},
		{"jobs", engine.Attempt, 1, 1, `policy "jobs" has a concurrency limit, and nobody knows when its units are released; leave MaxWait out`},
		{"jobs-trial", engine.Attempt, 1, 1, `policy "jobs-trial" has a concurrency limit, and nobody knows when its units are released; leave MaxWait out`},
		{"failures", engine.Attempt, 1, 1, `policy "failures" counts reported units, so an attempt takes nothing for which it could wait; leave MaxWait out`},
		{"knocks", engine.Attempt, 1, 1, `policy "knocks" counts denied attempts, so none of them can wait; leave MaxWait out`},
	} {
		it := Item{Rule: named(rules, c.policy), Request: waiter("ann", 0, 0, c.most)}
		it.Op, it.N = c.op, c.n
		want := "weir: bad time to wait: " + c.text
		_, err := it.Rule.Decide(ctx, &it.Request)
		if err == nil || err.Error() != want || !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s, op %d: got %v, want %s", c.policy, c.op, err, want)
		}
		if c.op > engine.Record {
			continue
		}
		items := []Item{it}
		if DecideAll(ctx, items); items[0].Err == nil || items[0].Err.Error() != want {
			t.Errorf("%s in a batch: got %v, want %s", c.policy, items[0].Err, want)
		}
	}
	for _, name := range []string{"mails", "trial"} {
		items := []Item{{Rule: named(rules, "share"), Request: waiter("ann", 0, 0, 0)}, {Rule: named(rules, name), Request: waiter("ann", 0, 0, 1)}}
		items[0].At, items[1].At = time.Time{}, time.Time{}
		wrong := new(engine.CallError)
		if err := DecideTogether(ctx, items); !errors.As(err, &wrong) || wrong.Call != 1 || !strings.Contains(err.Error(), "decided together cannot wait") {
			t.Errorf("%s together with another: got %v", name, err)
		}
	}
	assert.Equal(t, m.Stats().Keys, 0, "histories")
}

// TestWaitsDuringAnOutage: allow starts now, and share books its own instants.
func TestWaitsDuringAnOutage(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	store.Break(weirtest.Down())
	rules := rulesOf(t, waits, fallback.New(store, fallback.Deny))
	for _, c := range []struct {
		policy string
		start  time.Duration
	}{{"open", 0}, {"share", 9 * time.Second}} {
		rule := named(rules, c.policy)
		first, second := waiter("ann", 0, 0, time.Minute), waiter("ann", 0, 1, time.Minute)
		mustDecide(t, rule, &first)
		o := mustDecide(t, rule, &second)
		if !o.Allowed || !o.Degraded || o.StartAfter != c.start {
			t.Errorf("%s: got %+v, want a start after %v", c.policy, o.Decision, c.start)
		}
	}
	denied := waiter("ann", 0, 0, time.Minute)
	if _, err := named(rules, "mails").Decide(context.Background(), &denied); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("deny: got %v, want an error of the store", err)
	}
}

// TestShadowDelaysNoReplay: an appointment of a policy that has become a shadow since starts now.
func TestShadowDelaysNoReplay(t *testing.T) {
	m := weir.NewMemory()
	enforced := named(rulesOf(t, waits, m), "mails")
	definition := *enforced.Definition
	definition.Shadow = true
	shadow, err := NewRule(&definition, m)
	if err != nil {
		t.Fatal(err)
	}
	first, second := waiter("ann", 0, 0, 0), waiter("ann", 0, 1, time.Minute)
	second.ID = "second"
	mustDecide(t, enforced, &first)
	assert.Equal(t, mustDecide(t, enforced, &second).StartAfter, 9*time.Second, "the start")
	o := mustDecide(t, shadow, &second)
	if !o.Replayed || o.StartAfter != 0 || o.Applied.Would.StartAfter != 9*time.Second {
		t.Errorf("got %+v, want a replay that starts now", o)
	}
}
