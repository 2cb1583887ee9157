package envoy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// While the store is down, a request gets the error UNAVAILABLE. The proxy then applies
// its own failure mode.
func TestStoreDownIsUnavailable(t *testing.T) {
	faulty := weirtest.NewFaulty(weir.NewMemory())
	p := connect(t, fallback.New(faulty, fallback.Deny), parse(t, hitsConfig))
	p.wants("OK | OK 9/10 1m0s", "a=1")
	faulty.Break(weirtest.Down())
	for _, d := range []string{"a=1", "a=1 hits:0", "a=1 refund", "a=1 limit:1/HOUR"} {
		if a, err := p.send(p.request(d)); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no decision") {
			t.Errorf("%s: %v, %v; want Unavailable", d, a, err)
		}
	}
	// A request without a decision gets an answer.
	p.wants("OK | OK", "none=1")
	p.in("nobody").wants("OK | OK", "a=1")
	faulty.Restore()
	if n := &p.service.Counts; n.Failed.Load() != 4 || n.BadInputs.Load() != 0 {
		t.Errorf("%d requests counted as failed, %d as bad input; want 4 and 0", n.Failed.Load(), n.BadInputs.Load())
	}
}

// leaver is an engine that loses its store, or its proxy, before a given call.
type leaver struct {
	engine.Engine
	left  int // attempts until then
	leave func()
}

var errLost = errors.New("lost")

func (l *leaver) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		switch c := &calls[i]; c.Op {
		case engine.Attempt:
			if l.left--; l.left < 0 {
				l.leave()
				c.Fail(errLost)
			}
		case engine.Settle:
			if err := ctx.Err(); err != nil {
				c.Fail(err)
			}
		}
	}
	l.Engine.Do(ctx, calls)
}

// A request that fails after its first steps charges nothing that it has reserved, even if its proxy
// has hung up. Other hits stay, and are counted.
func TestFailedRequestChargesNothing(t *testing.T) {
	const config = `
domain: lost
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 10}}
`
	for second, kept := range map[string]int64{"watched=1": 1, "soft=1": 1, "a=1": 0} {
		l := &leaver{Engine: weir.NewMemory(), left: 1}
		p := connect(t, apart{l}, parse(t, config))
		r := p.request("a=1", second)
		ctx, cancel := context.WithCancel(context.Background())
		l.leave = cancel
		if a, err := p.service.answer(ctx, r); err == nil {
			t.Errorf("%s: got %v, want an error", second, a)
		}
		l.left = 10
		if a := p.ask("a=1 hits:0"); int64(a.Statuses[0].LimitRemaining) != 10-kept || p.service.Counts.Kept.Load() != kept {
			t.Errorf("%s: %s, and %d hits are counted as kept, want %d", second, brief(a), p.service.Counts.Kept.Load(), kept)
		}
	}
}

// With an outage mode there is an answer, and it is marked as degraded.
func TestOutageModesAreMarkedDegraded(t *testing.T) {
	for mode, want := range map[engine.Outage]string{
		fallback.Allow: "OK | OK 0/10 0s | OK 0/5 0s",
		fallback.Share: "OK | OK 4/10 1m0s | OK 1/5 1m0s", // the other process's share counts as used
	} {
		faulty := weirtest.NewFaulty(weir.NewMemory())
		p := connect(t, fallback.New(faulty, fallback.Deny, fallback.Instances(2)), parse(t, hitsConfig), func(o *Options) { o.Outage = mode })
		faulty.Break(weirtest.Down())
		a := p.ask("a=1", "b=1")
		if got := brief(a); got != want {
			t.Errorf("%v: got %s, want %s", mode, got, want)
		}
		if m := a.DynamicMetadata.AsMap(); fmt.Sprint(m) != "map[degraded:true]" {
			t.Errorf("%v: dynamic_metadata %v, want degraded", mode, m)
		}
		a = p.ask("a=1 hits:11", "b=1 hits:11")
		if got := a.OverallCode.String() + a.Statuses[0].Code.String() + a.Statuses[1].Code.String(); got != "OVER_LIMITOVER_LIMITOVER_LIMIT" {
			t.Errorf("%v: more than there ever may be: %s", mode, brief(a))
		}
		p.ask("a=1 refund")
		p.service.EachRule(func(domain, rule string, h *Hits) {
			if h.Near.Load() > 0 {
				t.Errorf("%v: %d hits of %s are counted as near the limit without a decision of the store", mode, h.Near.Load(), rule)
			}
		})
		faulty.Restore()
		if a := p.ask("none=1"); a.DynamicMetadata != nil {
			t.Errorf("%v: an answer without a decision of the store has %v", mode, a.DynamicMetadata)
		}
	}
}

// A hanging store delays a proxy by the timeout at most. After a few requests it delays
// none, even if the proxy cancels before the timeout.
func TestHangingStoreDelaysFewRequests(t *testing.T) {
	faulty := weirtest.NewFaulty(weir.NewMemory())
	f := fallback.New(faulty, fallback.Deny, fallback.FailureThreshold(3))
	p := connect(t, f, parse(t, hitsConfig))
	p.ask("a=1")
	release := make(chan struct{})
	var arrived atomic.Int64
	faulty.Break(func(ctx context.Context, call func()) error {
		arrived.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	defer close(release)
	deadline := time.Now().Add(patience)
	for arrived.Load() < 3 && time.Now().Before(deadline) { // on a busy machine some do not arrive in time
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		if _, err := p.c.ShouldRateLimit(ctx, p.request("a=1")); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v, want the proxy's own deadline", err)
		}
		cancel()
	}
	must.Await(t, "the breaker opens", func() bool { return f.Status().Cause != nil })
}

// Bad input that only the engine finds has its own text. Package calls has a test of each error.
func TestBadInputOfTheEngine(t *testing.T) {
	faulty := weirtest.NewFaulty(weir.NewMemory())
	faulty.Break(func(context.Context, func()) error { return engine.Input("id", "trouble") })
	p := connect(t, faulty, parse(t, hitsConfig))
	_, err := p.send(p.request("a=1"))
	if s, n := status.Convert(err), &p.service.Counts; s.Code() != codes.InvalidArgument || s.Message() != "weir: bad operation id: trouble" || n.BadInputs.Load() != 1 || n.Failed.Load() != 0 {
		t.Errorf("%v, %d bad inputs and %d failures are counted; want InvalidArgument, 1 and 0", err, n.BadInputs.Load(), n.Failed.Load())
	}
}
