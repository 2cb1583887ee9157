// Package keyby is the common part of weirhttp and weirgrpc: it orders the named key functions
// by the dimensions of a policy, and attempts the units of a request.
package keyby

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// Functions returns the functions in by, in the order of the dimensions of l's policy. It
// panics if l is not made with weir.New, if a dimension has no function, or if a name in by
// is not a dimension. caller begins the message, such as "weirhttp: Middleware".
func Functions[F any](caller string, l *weir.Limiter, by map[string]F) (ordered []F) {
	if l == nil || l.Compiled() == nil {
		panic(caller + " needs a limiter made with weir.New")
	}
	names := make(map[string]string, len(by))
	for name, f := range by {
		if reflect.ValueOf(f).IsNil() {
			panic(fmt.Sprintf("%s: the function for %q is nil", caller, name))
		}
		names[name] = ""
	}
	_, err := l.Compiled().Key(names)
	if input, bad := errors.AsType[*weir.InputError](err); bad {
		panic(caller + ": " + input.Problem)
	}
	for _, name := range l.Compiled().Dimensions {
		ordered = append(ordered, by[name])
	}
	return ordered
}

// Read returns the key that consists of the functions' results, in the order of p's
// dimensions; call calls one of them. An error of type E concerns the request and is
// returned as it is. Any other error is a fault of the program and wraps fault.
func Read[E error, F any](p *engine.Compiled, functions []F, fault error, call func(F) (string, error)) (weir.Key, error) {
	var few [4]string
	values := few[:0]
	for i, f := range functions {
		v, err := call(f)
		if err != nil {
			if _, expected := errors.AsType[E](err); !expected {
				err = fmt.Errorf("%w for %q: %w", fault, p.Dimensions[i], err)
			}
			return weir.Key{}, err
		}
		values = append(values, v)
	}
	return weir.K(values...), nil
}

// Attempt attempts n units and fills states. held is nil unless a limit of kind Concurrency holds
// the units; the caller ends it. The charge is made even if the client has hung up: a request
// that is cancelled immediately must not be free.
func Attempt(ctx context.Context, l *weir.Limiter, key weir.Key, n int64, states []weir.LimitState) (held *weir.Reservation, d weir.Decision, err error) {
	ctx = context.WithoutCancel(ctx)
	if l.Compiled().Holds != nil {
		return l.Reserve(ctx, key, weir.Request{N: n, States: states})
	}
	d, err = l.Decide(ctx, key, weir.Request{Op: weir.OpAttempt, N: n, States: states})
	return nil, d, err
}
