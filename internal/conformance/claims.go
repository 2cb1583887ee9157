package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// errUnclaimed is the answer to calls that the engine does not claim.
var errUnclaimed = errors.New("weirtest: the engine does not claim the call")

// claiming answers errUnclaimed to the calls that an engine does not claim. The model never
// gets them. A tested engine must reject them as bad input, and later answers show whether
// they changed anything.
type claiming struct {
	engine.Engine
	claims    func(*engine.Call) bool
	model     bool
	unclaimed int // calls that the model has rejected
}

func (e *claiming) Do(ctx context.Context, calls []engine.Call) {
	var out []*engine.Call
	for i := range calls {
		if c := &calls[i]; c.Err == nil && !e.claims(c) {
			out = append(out, c)
		}
	}
	if e.model {
		e.unclaimed += len(out)
		for _, c := range out {
			c.Fail(errUnclaimed)
		}
	}
	e.Engine.Do(ctx, calls)
	for _, c := range out {
		if errors.Is(c.Err, engine.ErrInput) {
			c.Fail(errUnclaimed)
		}
	}
}

// claimed returns err, or nil if the engine does not claim the call.
func claimed(err error) error {
	if errors.Is(err, errUnclaimed) {
		return nil
	}
	return err
}

// claiming returns newEngine with the claims.
func (c *Config) claiming(newEngine func(t *testing.T) engine.Engine) func(t *testing.T) engine.Engine {
	if c.Claims == nil {
		return newEngine
	}
	return func(t *testing.T) engine.Engine { return &claiming{Engine: newEngine(t), claims: c.Claims} }
}

// spec returns a specification with the engine's claims.
func (c *Config) spec() engine.Engine {
	if c.Claims == nil {
		return spec.New()
	}
	return &claiming{Engine: spec.New(), claims: c.Claims, model: true}
}

// claims reports whether the engine claims an attempt with that id under the rules.
func (c *Config) claims(rules *engine.Compiled, id string) bool {
	return c.Claims == nil || c.Claims(&engine.Call{Rules: rules, N: 1, ID: id})
}

// permits reports whether the policy with its present numbers is valid and claimed.
func (c *Config) permits(b *mutablePolicy) bool {
	rules, err := b.policy("").Compile()
	return err == nil && c.claims(rules, "")
}

// claimsVector reports whether the engine claims every call of v.
func (c *Config) claimsVector(v *vector) bool {
	if c.Claims == nil {
		return true
	}
	model := &claiming{Engine: spec.New(), claims: c.Claims, model: true}
	_, _ = v.run(model)
	return model.unclaimed == 0
}
