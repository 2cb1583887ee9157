package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// pending lets an engine that does not know R19 or R20 yet leave them out. It is deleted as soon as
// all engines know them.
func pending(t *testing.T, newEngine func(t *testing.T) engine.Engine, c *Config) func(t *testing.T) engine.Engine {
	rules, err := weir.Policy{Name: freshPrefix() + "pending", Limits: []weir.Limit{weir.PerMinute(1)}}.Compile()
	mustBeValid(err)
	calls := []engine.Call{{Rules: rules, Op: engine.Settle, N: 1, ID: "unknown"}, {Rules: rules, Op: engine.Block, From: 1_000_000}}
	e := newEngine(t)
	for i := range calls {
		func() {
			defer func() { _ = recover() }() // an unknown operation
			e.Do(context.Background(), calls[i:i+1])
		}()
	}
	reserves, blocks := errors.Is(calls[0].Err, engine.ErrExpired), calls[1].Result.Blocked > 0
	if reserves && blocks || c.Claims != nil {
		return newEngine
	}
	t.Logf("the engine knows reservations: %t, blocks: %t", reserves, blocks)
	c.Claims = func(call *engine.Call) bool {
		ofReservation := call.TTL > 0 || call.Op == engine.Settle || call.Op == engine.Extend
		ofBlock := call.Op == engine.Block || call.Op == engine.Probe
		for i := range call.Rules.Limits {
			ofBlock = ofBlock || call.Rules.Limits[i].Block > 0
		}
		return (reserves || !ofReservation) && (blocks || !ofBlock)
	}
	return func(t *testing.T) engine.Engine { return &rejecting{newEngine(t), c.Claims} }
}

// rejecting rejects the calls that claims does not report.
type rejecting struct {
	engine.Engine
	claims func(*engine.Call) bool
}

func (e *rejecting) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		if c := &calls[i]; c.Err == nil && !e.claims(c) {
			c.Fail(engine.Input("request", "pending"))
		}
	}
	e.Engine.Do(ctx, calls)
}
