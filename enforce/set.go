// Package enforce applies the policies of a file to an engine, with every feature of the
// file: plans, overrides, addresses, shadows, blocks, counts of reports, the words for
// outages, and reload while the program runs.
//
//	set, err := enforce.Open("weir.yaml", weir.NewMemory())
//	out, err := set.Check(ctx, "login", map[string]string{"user": "ann"}, 1)
//
// Middleware and transports take one policy of the file, as [Set.Rule].
//
// The values of a call are a key by the names of its dimensions. They also hold the value of
// plan-by, if the policy has plans and the caller has one. An address may have any written form,
// also that of http.Request.RemoteAddr, if the policy has keys: address for it.
//
// A policy, its plans and its overrides share one set of histories (R12). So a key that
// changes its plan keeps the units it has used.
//
// # Trade-off
//
// Package weir alone is enough for limits that are written in Go: it has fewer types and
// skips the lookup of policy and plan. The clock of this process, not that of the store,
// decides whether an override has expired. At an override's last instant, processes may
// differ by the error of their clocks.
package enforce

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/definition"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/policy"
)

// ErrNoPolicy reports that the file has no policy of the given name.
var ErrNoPolicy = enforce.ErrNoPolicy

// Set applies the policies of one file to an engine. It is safe for concurrent use. A
// reload replaces all policies in one step: a decision uses the old file or the new one.
type Set struct {
	policies enforce.Set
	path     string // the file that Open read; "" for New
}

// New returns a Set of the policies of f on e. A [fallback.Engine] takes the mode for
// outages from each policy's when-store-is-down. The error is a *[weir.PolicyError].
func New(f *policy.File, e engine.Engine) (*Set, error) {
	s := &Set{policies: enforce.Set{Engine: e}}
	return s, s.Reload(f)
}

// Open returns a Set of the policies of the file at path. The error is that of
// [policy.Load]. The file is read once; [Set.Watch] reloads it when it changes.
func Open(path string, e engine.Engine) (*Set, error) {
	src, err := enforce.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Set{enforce.Set{Engine: e}, path}
	return s, s.reloadSource(src)
}

// Reload replaces all policies by those of f. On an error the present ones stay in
// force. Histories stay: units already granted count under the new numbers, unless the kind
// of a limit changes (R12). Watch replaces those of f when the file changes after its last reading.
func (s *Set) Reload(f *policy.File) error { return cmp.Or(s, new(Set)).policies.Reload(f, nil) }

// Watch reloads the file whenever its content changes, until ctx is done. It blocks, so
// run it in a goroutine of its own. It calls reloaded after each attempt: with nil, or with
// the reason why the present policies stay in force. Without reloaded it logs the reason, or
// the changes and the overrides that have expired, with slog.Default. Watch
// notices files written in place, renamed into place, or reached through a swapped link.
// It returns ctx.Err(), or immediately an error if the Set has no file because New made it.
func (s *Set) Watch(ctx context.Context, reloaded func(error)) error {
	if s == nil || s.path == "" {
		return errors.New("weir: enforce.New has no file to watch; use enforce.Open, or Set.Reload")
	}
	if ctx == nil {
		return misuse.ErrNoContext
	}
	w := filewatch.Watcher{
		Seen: s.policies.Version().Source,
		Read: func() ([]byte, error) { return filewatch.ReadEnding(s.path, enforce.ReadFile) },
		Changed: func(text []byte, err error) error {
			before := s.policies.Version().File
			if err == nil {
				err = s.reloadSource(text)
			}
			if reloaded != nil {
				reloaded(err)
			} else {
				s.logReload(before, err)
			}
			return err
		}}
	w.Watch(ctx)
	return ctx.Err()
}

// logReload logs a reload of the policies before, or the reason why they stay in force.
func (s *Set) logReload(before *policy.File, err error) {
	if err != nil {
		slog.Error("weir: policies not reloaded; those in force stay",
			"source", s.path, "error", enforce.FirstError(err))
		return
	}
	now := s.policies.Version()
	slog.Info("weir: policies reloaded",
		"source", s.path, "changes", enforce.JoinChanges(policy.Changes(before, now.File)))
	for _, p := range now.File.Policies {
		for _, o := range definition.Expired(p, now.Since) {
			slog.Warn("weir: an override has expired and no longer applies; remove it",
				"policy", p.Name, "line", o.Line, "until", o.Until, "reason", o.Why)
		}
	}
}

func (s *Set) reloadSource(src []byte) error {
	f, err := policy.Parse(s.path, src)
	if err != nil {
		return err
	}
	return s.policies.Reload(f, func(next, _ *enforce.Version) error {
		next.Source = src
		return nil
	})
}

// decide makes a call of the policy of that name for the key that values give.
func (s *Set) decide(
	ctx context.Context, name string, values map[string]string, a *enforce.Request,
) (enforce.Outcome, error) {
	r, err := s.rule(name)
	if err != nil {
		return enforce.Outcome{}, err
	}
	if a.Op == engine.Reset || a.Op == engine.Block {
		a.Target, err = r.ResetTarget(pairsOf(values), a.Limits)
	} else {
		a.Target, err = r.Target(pairsOf(values))
	}
	if err != nil {
		return enforce.Outcome{}, err
	}
	return r.Decide(ctx, a)
}

// rule returns the present rule of that name.
func (s *Set) rule(name string) (*enforce.Rule, error) {
	if s == nil {
		s = new(Set) // the error of its Version gives the next step
	}
	return s.policies.Version().Rule(name)
}

// pairsOf returns the values with their names.
func pairsOf(values map[string]string) []enforce.Pair {
	pairs := make([]enforce.Pair, 0, len(values))
	for name, value := range values {
		pairs = append(pairs, enforce.Pair{Name: name, Value: value})
	}
	return pairs
}

// outcome makes a call and returns its public outcome.
func (s *Set) outcome(
	ctx context.Context, name string, values map[string]string, a enforce.Request,
) (weir.Outcome, error) {
	o, err := s.decide(ctx, name, values, &a)
	if err != nil {
		return weir.Outcome{}, err
	}
	return publicOutcome(&a, &o), nil
}

// publicOutcome returns the outcome of a request in the words of package weir.
func publicOutcome(a *enforce.Request, o *enforce.Outcome) weir.Outcome {
	applied := &o.Applied
	return weir.Outcome{
		Decision: o.Decision,
		Rules:    o.Limiter.Compiled(),
		Key:      a.Key,
		N:        a.N,
		States:   a.States,
		Units:    o.Units,
		Plan:     applied.Plan,
		Override: applied.Override,
		Until:    applied.Until,
		Shadow:   applied.Shadow,
		Would:    applied.Would,
		Blocked:  applied.Blocked,
		Warnings: applied.Warnings,
		Err:      o.Err,
	}
}

// Check decides whether n units fit now, and charges them if they do. Under count:
// reported it charges nothing; report the units with [Set.Record]. A denial is not an
// error. The error wraps [ErrNoPolicy] for an unknown policy and is a [weir.InputError] for
// values that do not match the policy's keys. Otherwise it is that of [weir.Limiter.AllowN].
func (s *Set) Check(
	ctx context.Context, name string, values map[string]string, n int64,
) (weir.Outcome, error) {
	return s.outcome(ctx, name, values, enforce.Request{Op: engine.Attempt, N: n})
}

// Peek decides as Check does and charges nothing.
func (s *Set) Peek(
	ctx context.Context, name string, values map[string]string, n int64,
) (weir.Outcome, error) {
	return s.outcome(ctx, name, values, enforce.Request{Op: engine.Peek, N: n})
}

// Record charges n units without a decision. Remaining may fall below 0.
func (s *Set) Record(
	ctx context.Context, name string, values map[string]string, n int64,
) (weir.Outcome, error) {
	return s.outcome(ctx, name, values, enforce.Request{Op: engine.Record, N: n})
}

// Decide decides an attempt with all its options: an instant, an idempotency key, the states of
// all limits, a wait. Without an instant (Request.At) it decides now. A TTL and 0 units are a
// [weir.InputError].
//
// A policy in shadow ignores MaxWait and delays nobody. Under count: reported MaxWait is a
// [weir.InputError], because an attempt takes nothing. The word max-wait of the file bounds callers
// of weir serve alone.
func (s *Set) Decide(
	ctx context.Context, name string, values map[string]string, q weir.Request,
) (weir.Outcome, error) {
	if err := checkRequest(&q, false); err != nil {
		return weir.Outcome{}, err
	}
	return s.outcome(ctx, name, values, enforce.Request{
		N:       q.N,
		At:      q.At,
		States:  q.States,
		ID:      q.ID,
		MaxWait: q.MaxWait,
	})
}

// checkRequest returns the error of a request of 0 units, or of one with a TTL that makes no
// reservation. The limiter checks the rest.
func checkRequest(q *weir.Request, reserves bool) error {
	switch {
	case q.N == 0:
		return engine.Input("units",
			"0; an attempt takes 1 or more, and Set.Peek looks without a charge")
	case q.TTL != 0 && !reserves:
		return engine.Input("request", "TTL is for a reservation; leave it out")
	}
	return nil
}

// Refund returns up to n units of the grant at the instant at, which is Decision.At. It
// returns the number of units refunded.
func (s *Set) Refund(
	ctx context.Context, name string, values map[string]string, at time.Time, n int64,
) (int64, error) {
	o, err := s.decide(ctx, name, values, &enforce.Request{Op: engine.Refund, From: at, N: n})
	return o.Granted, err
}

// Reset deletes the histories of a key in the limits that count by every dimension, and ends
// the blocks of these limits. With the names of limits it resets those alone, and values needs
// their dimensions only. It returns the names of the limits that were reset, as
// [weir.Limiter.Reset] does.
func (s *Set) Reset(
	ctx context.Context, name string, values map[string]string, limits ...string,
) ([]string, error) {
	o, err := s.decide(ctx, name, values, &enforce.Request{Op: engine.Reset, Limits: limits})
	return o.Limits, err
}

// Block blocks a key for d from now, in the limits that [Set.Reset] would reset (R20). A running
// block that lasts longer stays. It charges nothing. d is up to 400 days, and 0 ends blocks. It
// returns the end of the longest block of these limits; after d of 0 the zero Time.
func (s *Set) Block(
	ctx context.Context, name string, values map[string]string, d time.Duration, limits ...string,
) (until time.Time, err error) {
	o, err := s.decide(ctx,
		name, values, &enforce.Request{Op: engine.Block, For: d, Limits: limits})
	return o.Applied.Blocked, err
}
