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
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/lifetime"
)

// Keys reads the values of a request by functions of type F, and attempts its units.
type Keys[F any] struct {
	decider   weir.Decider
	policy    string   // its name
	fault     error    // wrapped by each error that is a fault of the program
	names     []string // sorted
	functions []F      // in the order of the names
}

// New returns the functions in by. It panics if d is nil or has no policy, if a dimension has no
// function, or if a name in by is not a dimension. caller begins the message, such as
// "weirhttp: Middleware". Each later error that is a fault of the program wraps fault.
func New[F any](caller string, d weir.Decider, by map[string]F, fault error) Keys[F] {
	if isnil.Is(d) {
		panic(caller + " got a nil limiter; " +
			"check the error of weir.New, or pass the rule of an enforce.Set")
	}
	k := Keys[F]{decider: d, fault: fault, names: slices.Sorted(maps.Keys(by))}
	if err := d.CheckNames(k.names); err != nil {
		problem := strings.TrimPrefix(err.Error(), "weir: ")
		if input, bad := errors.AsType[*weir.InputError](err); bad {
			problem = input.Problem
		}
		panic(caller + ": " + problem)
	}
	rules := d.Compiled()
	if rules == nil {
		panic(caller + ": a reload has just removed the policy; put it back into the file")
	}
	k.policy = rules.Name
	for _, name := range k.names {
		f := by[name]
		if reflect.ValueOf(f).IsNil() {
			panic(fmt.Sprintf("%s: the function for %q is nil", caller, name))
		}
		k.functions = append(k.functions, f)
	}
	return k
}

// Policy returns the name of the policy.
func (k *Keys[F]) Policy() string { return k.policy }

// Read returns the values of a request by name; call calls one of the functions. An error of
// type E concerns the request and is returned as it is. Any other error of a function is a
// fault of the program.
func Read[E error, F any](k *Keys[F], call func(F) (string, error)) (map[string]string, error) {
	values := make(map[string]string, len(k.names))
	for i, f := range k.functions {
		v, err := call(f)
		if err != nil {
			if _, expected := errors.AsType[E](err); !expected {
				err = fmt.Errorf("%w: the function for %q failed: %w", k.fault, k.names[i], err)
			}
			return nil, err
		}
		values[k.names[i]] = v
	}
	return values, nil
}

// Text returns a text that is different for different values.
func (k *Keys[F]) Text(values map[string]string) string {
	var b strings.Builder
	for _, name := range k.names {
		fmt.Fprintf(&b, "%d:%s", len(values[name]), values[name])
	}
	return b.String()
}

// Attempt attempts the units of a request r, which has N and perhaps a MaxWait. held is nil unless
// reserves is true or a concurrency limit holds the units; the caller settles it. It lives as long
// as its hold or, without a concurrency limit, for at most [lifetime.Longest].
//
// An error that no request can cause is a fault of the program: a reload of the policy file has
// removed the policy, or its dimensions are no longer those of the functions, or the policy
// cannot be used in this way.
func (k *Keys[F]) Attempt(
	ctx context.Context, values map[string]string, r weir.Request, reserves bool,
) (held *weir.Reservation, o weir.Outcome, err error) {
	// A reload after this look may add a concurrency limit. The one hold then ends by time.
	if reserves || holds(k.decider.Compiled()) {
		r.TTL = lifetime.OfRequest
		held, o, err = k.decider.ReserveFor(ctx, values, r)
	} else {
		o, err = k.decider.DecideFor(ctx, values, r)
	}
	if err != nil {
		err = k.blame(err)
	}
	return held, o, err
}

// WaitProblem returns the reason why no attempt under the policy can wait (R18), or "".
func (k *Keys[F]) WaitProblem() string {
	rules := k.decider.Compiled()
	switch {
	case holds(rules):
		return fmt.Sprintf("policy %q has a concurrency limit, "+
			"and nobody knows when its units are "+
			"released; leave MaxWait out, or use a policy without the limit", k.policy)
	case rules != nil && rules.Mode == weir.CountDenied:
		return fmt.Sprintf("policy %q counts denied attempts (CountDenied), "+
			"so none of them can wait; "+
			"leave MaxWait out, or use another mode", k.policy)
	}
	return ""
}

// holds reports whether the rules have a concurrency limit. A reload may have removed the rules,
// then they are nil.
func holds(rules *engine.Compiled) bool {
	isHold := func(l engine.Limit) bool { return answer.Holds(l.Kind) }
	return rules != nil && slices.ContainsFunc(rules.Limits, isHold)
}

// blame returns the error of an attempt, as a fault of the program if it is one.
func (k *Keys[F]) blame(err error) error {
	switch problem := k.decider.CheckNames(k.names); {
	case problem == nil:
	case k.decider.Compiled() == nil:
		return k.Fault("%w: put policy %q back into the file, or restart the program without it",
			problem, k.policy)
	default:
		return k.Fault("%w; the program has functions for %q: "+
			"restart it with functions for the present values, or correct the policy file",
			problem, k.names)
	}
	if _, bad := errors.AsType[*weir.PolicyError](err); bad {
		return k.Fault("%w", err)
	}
	if input, bad := errors.AsType[*weir.InputError](err); bad &&
		input.Field != "key" && input.Field != "units" {
		return k.Fault("%w", err) // a request chooses its key and its units, the program the rest
	}
	return err
}

// Fault returns an error that is a fault of the program.
func (k *Keys[F]) Fault(format string, args ...any) error {
	return fmt.Errorf("%w: %w", k.fault, fmt.Errorf(format, args...))
}

// TimeLeft returns the time until the deadline of ctx, 0 … most.
func TimeLeft(ctx context.Context, most time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(max(0, time.Until(deadline)), most)
	}
	return most
}

// End ends the hold of a reservation that counts. Without a hold nothing is left to do: its units
// stay as they were granted. If that fails, a line of the log names its owner, such as "request" or
// "call".
func End(ctx context.Context, held *weir.Reservation, log *slog.Logger, owner, policy string) {
	if held.HeldUntil().IsZero() {
		return
	}
	if err := held.Done(context.WithoutCancel(ctx)); err != nil {
		log.Warn("the hold of a "+owner+" could not be ended; it ends by time",
			"policy", policy, "error", err)
	}
}

// backTimeout bounds the call that gives units back: its caller may have left.
const backTimeout = time.Second

// GiveBack settles a reservation that does not count, within a second. If that fails, a line of the
// log names its owner.
func GiveBack(ctx context.Context, held *weir.Reservation, log *slog.Logger, owner, policy string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), backTimeout)
	defer stop()
	if err := held.Cancel(ctx); err != nil {
		log.Warn("the units of a "+owner+" that does not count could not be given back; "+
			"they leave by time",
			"policy", policy, "error", err)
	}
}
