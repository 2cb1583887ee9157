package enforce

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// caching is one process on a shared store. It repeats the denial of an attempt for ever,
// marked Cached.
type caching struct {
	engine.Engine
	denied map[string]engine.Result
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
