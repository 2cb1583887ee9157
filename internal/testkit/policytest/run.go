// Package policytest runs the tests of a policy file in virtual time, each on a memory
// engine of its own, through package enforce.
//
// A test shows the meaning of the numbers in a file. It does not show that a store or a
// caller works. Steps are compared with the decision itself, which a shadow does not
// enforce.
package policytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
)

// Failure is the first step of a test that misses its expectation.
type Failure struct {
	Line    int    // line of the step in the file
	Problem string // the expectation, the decision and its reason
}

// Run runs a test. It returns nil if every step meets its expectation. The error reports
// a step without a decision.
func Run(t *policy.Test) (*Failure, error) {
	rule, err := enforce.NewRule(t.Policy, weir.NewMemory())
	if err != nil {
		return nil, err
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		for time := range s.Times {
			missed, err := take(rule, t, s)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", s.Line, err)
			}
			if missed != "" {
				return &Failure{s.Line, which(s, time) + missed}, nil
			}
		}
	}
	return nil, nil
}

// which names one repetition of a step.
func which(s *policy.Step, time int64) string {
	at := "at " + duration.Format(s.At)
	if s.Times > 1 {
		at += fmt.Sprintf(", time %d of %d", time+1, s.Times)
	}
	return at + ": "
}

// ops are the operations of the steps that are decisions.
var ops = map[string]engine.Op{"check": engine.Attempt, "peek": engine.Peek, "record": engine.Record}

// take makes a step once and returns the differences from its expectation, or "".
func take(rule *enforce.Rule, t *policy.Test, s *policy.Step) (missed string, err error) {
	op, decides := ops[s.Do]
	if !decides {
		return "", reset(rule, s)
	}
	target, err := rule.Target(s.Key)
	if err != nil {
		return "", err
	}
	at := t.From.Add(s.At)
	a := answer.Answer{Key: target.Key, Op: op, N: s.N, States: make([]weir.LimitState, len(rule.Limits))}
	o, err := rule.Decide(context.Background(), &enforce.Request{Target: target, Op: op, N: s.N, At: at, States: a.States})
	if err == nil {
		err = o.Err
	}
	if err != nil {
		return "", err
	}
	a.Compiled, a.Units, a.Decision, a.Blocked = o.Limiter.Compiled(), o.Units, o.Decision, o.Applied.Blocked
	if o.Applied.Shadow {
		a.Decision = o.Applied.Would
	}
	differences := compare(&s.Expect, &a.Decision, o.Applied.Warnings)
	if len(differences) == 0 {
		return "", nil
	}
	return strings.Join(differences, ", ") + " (" + a.Why(nil) + ")", nil
}

// reset makes a step that resets limits.
func reset(rule *enforce.Rule, s *policy.Step) error {
	var limits []string
	if s.Limit != "" {
		limits = []string{s.Limit}
	}
	target, err := rule.ResetTarget(s.Key, limits)
	if err == nil {
		r := enforce.Request{Target: target, Op: engine.Reset, Limits: limits}
		_, err = rule.Decide(context.Background(), &r)
	}
	return err
}

// compare returns the differences between a decision and its expectation.
func compare(e *policy.Expectation, d *weir.Decision, warnings []string) []string {
	units := func(n int64) string { return fmt.Sprint(n) }
	limit := func(name string) string { return cmp.Or(name, "none") }
	return slices.Concat(
		miss("", d.Allowed, e.Allowed, verdict),
		miss("granted ", d.Granted, e.Granted, units),
		miss("remaining ", d.Remaining, e.Remaining, units),
		miss("retry ", d.RetryAfter, e.Retry, wait),
		miss("limit ", d.Limit, e.Limit, limit),
		miss("warning ", len(warnings) > 0, e.Warning, strconv.FormatBool))
}

// miss returns the difference between a value and its expectation, if there is one.
func miss[T any](name string, got T, want *T, text func(T) string) []string {
	if want == nil || text(got) == text(*want) {
		return nil
	}
	return []string{name + text(got) + ", want " + text(*want)}
}

func verdict(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// wait writes a wait in the words of the file.
func wait(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	return duration.Format(d)
}
