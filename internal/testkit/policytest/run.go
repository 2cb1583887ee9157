// Package policytest runs the tests of a policy file: each in virtual time, on a
// memory engine of its own, through what weir serve decides by.
//
// The bargain: a test shows what the numbers of a file mean, not whether a store or
// a caller does its part. A step is held to what is decided, also where a shadow
// does not enforce it.
package policytest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// Failure is the first step of a test that did not come to what is expected.
type Failure struct {
	Line    int    // of the step in the file
	Problem string // what was expected, what came of it, and why
}

// Run runs a test. It returns nil when every step came to what is expected. The
// error says that a step could not be decided at all.
func Run(t *policy.Test) (*Failure, error) {
	rule, err := enforce.NewRule(t.Policy, weir.NewMemory())
	if err != nil {
		return nil, err
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		for time := range s.Times {
			what, err := take(rule, t, s)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", s.Line, err)
			}
			if what != "" {
				return &Failure{s.Line, which(s, time) + what}, nil
			}
		}
	}
	return nil, nil
}

// which names one of several times of a step.
func which(s *policy.Step, time int) string {
	at := "at " + policy.FormatDuration(s.At)
	if s.Times > 1 {
		at += fmt.Sprintf(", time %d of %d", time+1, s.Times)
	}
	return at + ": "
}

// ops are what the steps that are decisions ask.
var ops = map[policy.StepOp]weir.Op{policy.Check: weir.OpAttempt, policy.Peek: weir.OpPeek, policy.Record: weir.OpRecord}

// take takes a step once and returns what did not meet the expectation, or "".
func take(rule *enforce.Rule, t *policy.Test, s *policy.Step) (what string, err error) {
	values := make(map[string]string, len(s.Key))
	for _, d := range s.Key {
		values[d.Name] = d.Value
	}
	whose, err := rule.TargetOf(values)
	if err != nil {
		return "", err
	}
	at := t.From.Add(s.At).UnixMicro()
	op, decides := ops[s.Op]
	if !decides {
		return "", rule.Reset(context.Background(), whose.Key)
	}
	a := answer.Answer{Key: whose.Key, Op: op, N: s.N, States: make([]weir.LimitState, len(rule.Limits))}
	o, err := rule.Decide(context.Background(), &enforce.Request{Target: whose, Op: op, N: s.N, At: at, States: a.States})
	if err == nil {
		err = o.Err
	}
	if err != nil {
		return "", err
	}
	a.Plan, a.Units, a.Decision, a.Blocked = o.Limiter.Plan(), o.Units, o.Decision, o.Applied.Blocked
	if o.Applied.Shadow {
		a.Decision = o.Applied.Would
	}
	missed := compare(&s.Expect, &a.Decision)
	if len(missed) == 0 {
		return "", nil
	}
	return strings.Join(missed, ", ") + " (" + a.Why() + ")", nil
}

// compare returns where a decision differs from what is expected.
func compare(e *policy.Expectation, d *weir.Decision) []string {
	var missed []string
	miss := func(what, got, want string) {
		if got != want {
			missed = append(missed, what+got+", want "+want)
		}
	}
	if e.Allowed != nil {
		miss("", verdict(d.Allowed), verdict(*e.Allowed))
	}
	if e.Granted != nil {
		miss("granted ", fmt.Sprint(d.Granted), fmt.Sprint(*e.Granted))
	}
	if e.Remaining != nil {
		miss("remaining ", fmt.Sprint(d.Remaining), fmt.Sprint(*e.Remaining))
	}
	if e.Retry != nil {
		miss("retry ", wait(d.RetryAfter), wait(*e.Retry))
	}
	if e.Limit != nil {
		miss("limit ", name(d.Limit), name(*e.Limit))
	}
	return missed
}

func verdict(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// wait is in the words of the file.
func wait(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	return policy.FormatDuration(d)
}

func name(limit string) string {
	if limit == "" {
		return "none"
	}
	return limit
}
