// Package misuse has the errors of calls that no engine can decide: on an engine that its
// constructor did not make, and without a context. All engines return the same ones. It also has
// the hint of a reset with too few values, the same for limiters and policy files, and the words
// for a number of units.
package misuse

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir/engine"
)

// ErrNoContext is the error of a call without a context.
var ErrNoContext = engine.Input("request",
	"the context is nil; use context.Background() where no other fits")

// Fail fails the calls that have no error yet: with ErrNoContext, or because the engine is zero or
// nil, where constructor makes one.
func Fail(ctx context.Context, calls []engine.Call, constructor string) {
	err := Error(ctx, constructor)
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			c.Fail(err)
		}
	}
}

// Error returns ErrNoContext without a context, and otherwise the error of a zero or nil engine.
func Error(ctx context.Context, constructor string) error {
	if ctx == nil {
		return ErrNoContext
	}
	return engine.Input("request",
		"the zero or nil engine decides nothing; make one with %s", constructor)
}

// Units returns a number of units in words: "1 unit", "5 units". A store reports it as a text.
func Units[N int64 | string](n N) string {
	text := fmt.Sprint(n)
	if text == "1" {
		return "1 unit"
	}
	return text + " units"
}

// ResetHint returns words behind the error of a reset without names whose key lacks values: the
// limits that count by fewer values than the policy, for which has is true. It is "" without any.
func ResetHint(rules *engine.Compiled, has func(l *engine.Limit) bool) string {
	var names []string
	for i := range rules.Limits {
		l := &rules.Limits[i]
		if len(l.By) < len(rules.Dimensions) && has(l) {
			names = append(names, l.Name)
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("; or name limits that count by fewer values: %q", names)
}
