package conformance

import (
	"context"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// rollingOnly is a specification that rejects the calls that rolling does not claim. With
// charges it decides them first; with accepts it does not reject them.
type rollingOnly struct {
	*spec.Engine
	charges, accepts bool
}

func rolling(c *engine.Call) bool {
	for _, l := range c.Rules.Limits {
		if l.Kind != engine.KindRolling {
			return false
		}
	}
	return c.ID == "" && c.Op != engine.Refund
}

func (e rollingOnly) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		c := &calls[i]
		bad := !rolling(c)
		if !bad || e.charges || e.accepts {
			e.Engine.Do(ctx, calls[i:i+1])
		}
		if bad && !e.accepts {
			c.Fail(engine.Input("request", "out of claims"))
		}
	}
}

// TestClaims: an engine passes if it rejects the calls that it does not claim, and changes
// nothing.
func TestClaims(t *testing.T) {
	for name, c := range map[string]struct {
		engine rollingOnly
		passes bool
	}{
		"rejects": {rollingOnly{}, true},
		"charges": {rollingOnly{charges: true}, false},
		"accepts": {rollingOnly{accepts: true}, false},
	} {
		config := DefaultConfig(nil)
		config.Claims = rolling
		open := config.claiming(func(*testing.T) engine.Engine {
			c.engine.Engine = spec.New()
			return c.engine
		})
		d := &differential{c: config, newEngine: func() engine.Engine { return open(t) }, shards: 1}
		if report := d.run(4_000); (report == "") != c.passes {
			t.Errorf("%s: passes %t, want %t\n%s", name, report == "", c.passes, report)
		}
	}
}
