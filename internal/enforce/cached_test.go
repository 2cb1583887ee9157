package enforce

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// caching is one process on a shared store. It repeats the denial of an attempt for ever,
// marked Cached.
type caching struct {
	engine.Engine
	denied map[string]engine.Result
	before func(*engine.Call) // runs before each attempt on the policy; may be nil
}

func (e *caching) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		e.decideCall(&calls[i])
	}
}

func (e *caching) decideCall(c *engine.Call) {
	if c.Op != engine.Attempt || c.States != nil {
		decideCall(e.Engine, c)
		return
	}
	if e.before != nil && c.Rules.Name == "guard" {
		e.before(c)
	}
	key := fmt.Sprint(c.Rules.Name, c.N)
	if r, ok := e.denied[key]; ok {
		c.Result = r
		return
	}
	if decideCall(e.Engine, c); c.Err == nil && !c.Result.Allowed {
		cached := c.Result
		cached.Cached = true
		e.denied[key] = cached
	}
}

// decideCall decides a call on an engine.
func decideCall(e engine.Engine, c *engine.Call) {
	calls := []engine.Call{*c}
	e.Do(context.Background(), calls)
	*c = calls[0]
}

// twoProcesses returns a policy of two processes on one store, the first of which caches
// denials.
func twoProcesses(t *testing.T) (here, other *Rule, e *caching) {
	store := weir.NewMemory()
	e = &caching{Engine: store, denied: map[string]engine.Result{}}
	return ruleIn(t, "blocks.yaml", "guard", e), ruleIn(t, "blocks.yaml", "guard", store), e
}

// TestCachedDenialBeginsNoBlock: a cached denial may be one of a key that another process
// has reset meanwhile. A block that it began would outlast it by far.
func TestCachedDenialBeginsNoBlock(t *testing.T) {
	here, other, _ := twoProcesses(t)
	attempt(t, here, 2)
	if o := attempt(t, here, 1); o.Decision.Cached || o.Applied.Blocked.IsZero() {
		t.Fatalf("denied by the store: %+v, want a block", o)
	}
	must.Do(t, reset(other, weir.K("u")))
	if o := attempt(t, here, 1); !o.Decision.Allowed {
		t.Errorf("after a reset by another process: %+v, want the decision of the store", o)
	}
}

// TestBlockBeginsInTheStore: the attempt that begins a block is not answered by a cached
// denial, which may be of a block that another process has ended.
func TestBlockBeginsInTheStore(t *testing.T) {
	here, other, e := twoProcesses(t)
	attempt(t, here, 2)
	e.before = func(*engine.Call) { attempt(t, other, 1) } // begins the block while this process decides
	if o := attempt(t, here, 1); o.Applied.Blocked.IsZero() {
		t.Fatalf("%+v, want the block of the other process", o)
	}
	e.before = nil
	must.Do(t, reset(other, weir.K("u")))
	attempt(t, other, 1)
	if o := attempt(t, here, 2); o.Decision.Cached || o.Applied.Blocked.IsZero() {
		t.Fatalf("denied by the store: %+v, want a block", o)
	}
	if o := attempt(t, other, 1); o.Applied.Blocked.IsZero() {
		t.Errorf("the other process: %+v, want the block of this one", o)
	}
}

// TestShadowOfACachedDenial: the mark belongs to the decision that is not enforced. A cached
// decision never allows.
func TestShadowOfACachedDenial(t *testing.T) {
	r := rulesOf(t, "version: 1\npolicies:\n  shadow: {limit: 1 per hour, shadow: true}\n", &caching{Engine: weir.NewMemory(), denied: map[string]engine.Result{}})[0]
	for i, cached := range []bool{false, false, true} {
		o, err := r.Decide(context.Background(), &Request{Target: Target{Key: weir.K()}, N: 1})
		if err != nil || !o.Decision.Allowed || o.Decision.Cached || o.Applied.Would.Cached != cached {
			t.Errorf("attempt %d: %+v, %v; want a grant, and a decision that is not enforced, cached: %v", i, o, err, cached)
		}
	}
}
