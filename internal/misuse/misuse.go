// Package misuse has texts that several packages share: the errors of calls without a context or
// of a zero or nil engine, the hint after a reset with too few values, and numbers of units in
// words.
package misuse

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir/engine"
)

// ErrNoContext is the error of a call without a context.
var ErrNoContext = engine.Input("request",
	"the context is nil; use context.Background() where no other fits")

// Fail sets the error of [Error] in the calls that have no error yet.
func Fail(ctx context.Context, calls []engine.Call, constructor string) {
	err := Error(ctx, constructor)
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			c.Fail(err)
		}
	}
}

// Error returns ErrNoContext if ctx is nil, and otherwise the error of a zero or nil engine. It
// names the constructor of the engine, such as "weir.NewMemory".
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

// ResetHint returns the end of the error of a reset that names no limits and lacks values of the
// key. It lists the limits that count by fewer dimensions than the policy, if has reports that
// the key has the values for them. It is "" if there is no such limit.
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
