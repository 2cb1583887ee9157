// Package keyby is the common part of weirhttp and weirgrpc: it reads the key of a request by
// named functions, attempts its units, and ends its hold.
package keyby

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/isnil"
)

// Keys reads the values of a request by functions of type F.
type Keys[F any] struct {
	names     []string // sorted
	functions []F      // in the order of the names
}

// New returns the functions in by. It panics if d is nil or has no rules, if a dimension has no
// function, or if a name in by is not a dimension. caller begins the message, such as
// "weirhttp: Middleware".
func New[F any](caller string, d weir.Decider, by map[string]F) Keys[F] {
	if isnil.Is(d) || d.Compiled() == nil {
		panic(caller + " needs a limiter made with weir.New, or the rule of an enforce.Set")
	}
	k := Keys[F]{names: slices.Sorted(maps.Keys(by))}
	if err := d.CheckNames(k.names); err != nil {
		problem := err.Error()
		if input, bad := errors.AsType[*weir.InputError](err); bad {
			problem = input.Problem
		}
		panic(caller + ": " + problem)
	}
	for _, name := range k.names {
		f := by[name]
		if reflect.ValueOf(f).IsNil() {
			panic(fmt.Sprintf("%s: the function for %q is nil", caller, name))
		}
		k.functions = append(k.functions, f)
	}
	return k
}

// Read returns the values of a request by name; call calls one of the functions. An error of
// type E concerns the request and is returned as it is. Any other error of a function is a
// fault of the program and wraps fault.
func Read[E error, F any](k *Keys[F], fault error, call func(F) (string, error)) (map[string]string, error) {
	values := make(map[string]string, len(k.names))
	for i, f := range k.functions {
		v, err := call(f)
		if err != nil {
			if _, expected := errors.AsType[E](err); !expected {
				err = fmt.Errorf("%w for %q: %w", fault, k.names[i], err)
			}
			return nil, err
		}
		values[k.names[i]] = v
	}
	return values, nil
}

// Attempt attempts the units of a request. The charge is made even if the client has hung up: a
// request that is cancelled immediately must not be free. 0 units only look.
//
// held is nil unless reserves is true or a concurrency limit holds the units; the caller ends it.
func Attempt(ctx context.Context, d weir.Decider, values map[string]string, units int64, reserves bool) (held *weir.Reservation, o weir.Outcome, err error) {
	ctx = context.WithoutCancel(ctx)
	r := weir.Request{N: units}
	if rules := d.Compiled(); reserves || rules != nil && rules.Holds != nil {
		return d.ReserveFor(ctx, values, r)
	}
	o, err = d.DecideFor(ctx, values, r)
	return nil, o, err
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
