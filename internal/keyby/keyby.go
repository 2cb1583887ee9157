// Package keyby is the common part of weirhttp and weirgrpc: it orders the named key functions
// by the dimensions of a policy, attempts the units of a request, and ends its hold.
package keyby

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
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
		names[name] = name // any value: only the names count
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

// Attempt attempts the units of a request. It reads its key by the functions, in the order of
// the dimensions of l's policy; call calls one of them. An error of type E concerns the request
// and is returned as it is. Any other error of a function is a fault of the program and wraps
// fault. The charge is made even if the client has hung up: a request that is cancelled
// immediately must not be free.
//
// held is nil unless a concurrency limit holds the units; the caller ends it (End).
func Attempt[E error, F any](ctx context.Context, l *weir.Limiter, functions []F, fault error, call func(F) (string, error), units func() int64) (a *answer.Answer, held *weir.Reservation, err error) {
	rules := l.Compiled()
	var few [4]string
	values := few[:0]
	for i, f := range functions {
		v, err := call(f)
		if err != nil {
			if _, expected := errors.AsType[E](err); !expected {
				err = fmt.Errorf("%w for %q: %w", fault, rules.Dimensions[i], err)
			}
			return nil, nil, err
		}
		values = append(values, v)
	}
	a = &answer.Answer{Compiled: rules, Key: weir.K(values...), N: units(), States: make([]weir.LimitState, len(rules.Limits))}
	ctx = context.WithoutCancel(ctx)
	if rules.Holds != nil {
		held, a.Decision, err = l.Reserve(ctx, a.Key, weir.Request{N: a.N, States: a.States})
	} else {
		a.Decision, err = l.Decide(ctx, a.Key, weir.Request{Op: weir.OpAttempt, N: a.N, States: a.States})
	}
	return a, held, err
}

// End ends a hold, if there is one. If it fails, a line of the log names its owner, such as
// "request" or "call".
func End(ctx context.Context, held *weir.Reservation, log *slog.Logger, owner, policy string) {
	if held == nil {
		return
	}
	if err := held.Done(context.WithoutCancel(ctx)); err != nil {
		log.Warn("the hold of a "+owner+" could not be ended; it ends by time", "policy", policy, "error", err)
	}
}
