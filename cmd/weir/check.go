package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// checkOptions are the flags of weir check.
type checkOptions struct {
	policies, store string
	id              string
	n               int
	peek            bool
}

func checkCommand() *cobra.Command {
	var o checkOptions
	cmd := newCommand("check POLICY [key=value ...]", "Make one decision", wantArgs(1, math.MaxInt, "POLICY"), o.run)
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	cmd.Flags().VarP(intValue(&o.n, 1, 0, int(min(math.MaxInt, weir.MaxUnits)), ""), "units", "n", "units to take")
	cmd.Flags().BoolVar(&o.peek, "peek", false, "return the answer of an attempt and take nothing")
	cmd.Flags().StringVar(&o.id, "id", "", "the idempotency key: attempts with the same `ID` are charged once")
	return withJSON(cmd, "print the answer as one JSON object")
}

func (o *checkOptions) run(cmd *cobra.Command, args []string) error {
	if o.peek && o.id != "" {
		return usage("leave out one of them", "--peek takes nothing, so it has no --id")
	}
	a, applied, err := o.decide(cmd, args[0], args[1:])
	if err != nil {
		return err
	}
	err = printResult(cmd, cmd.OutOrStdout(), json.RawMessage(a.AppendJSON(nil, applied)), func(b *strings.Builder) { writeAnswer(b, a, applied) })
	if err == nil && !a.Decision.Allowed {
		err = errDenied
	}
	return err
}

// decide makes the decision. If a shadow cannot decide, that is an error here: its
// answer would hide the fault.
func (o *checkOptions) decide(cmd *cobra.Command, name string, pairs []string) (_ *answer.Answer, _ *answer.Applied, err error) {
	file, _, err := loadPolicies(o.policies, cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	p, err := findPolicy(file, name)
	if err != nil {
		return nil, nil, err
	}
	store, err := openStore(o.store)
	if err != nil {
		return nil, nil, err
	}
	defer closeStore(store, &err)
	rule, err := enforce.NewRule(p, store.Engine)
	if err != nil {
		return nil, nil, usage("", "%s: %w", file.Name, err)
	}
	target, err := parseKey(rule, pairs)
	if err != nil {
		return nil, nil, err
	}
	a := &answer.Answer{Key: target.Key, N: int64(o.n), States: make([]weir.LimitState, len(p.Limits))}
	if o.peek {
		a.Op = weir.OpPeek
	}
	made, err := rule.Decide(context.Background(), &enforce.Request{Target: target, Op: a.Op, N: a.N, States: a.States, ID: o.id})
	err = cmp.Or(err, made.Err)
	switch {
	case errors.Is(err, &engine.InputError{Field: "id"}):
		return nil, nil, usage("", "--id: %w", err)
	case answer.IsBadInput(err):
		return nil, nil, usage("", "%w", err)
	case err != nil:
		return nil, nil, unreachable(store.Name, err)
	}
	a.Compiled, a.Units, a.Decision, a.Blocked = made.Limiter.Compiled(), made.Units, made.Decision, made.Applied.Blocked
	return a, &made.Applied, nil
}

// parseKey returns the key in arguments of the form key=value.
func parseKey(rule *enforce.Rule, pairs []string) (target enforce.Target, err error) {
	example := "write the key as"
	for _, dimension := range rule.Dimensions() {
		example += " " + dimension + "=VALUE"
	}
	var values []enforce.Pair
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return target, usage(example, "%q is not key=value", pair)
		}
		if slices.ContainsFunc(values, func(v enforce.Pair) bool { return v.Name == name }) {
			return target, usage(example, "%q is given twice", name)
		}
		values = append(values, enforce.Pair{Name: name, Value: value})
	}
	if target, err = rule.Target(values); err != nil {
		for _, v := range values {
			isUnits := slices.Contains([]string{"n", "units", "cost"}, v.Name)
			if isUnits && !slices.Contains(rule.Dimensions(), v.Name) {
				example = "write the units as -n " + v.Value
			}
		}
		return target, usage(example, "%w", err)
	}
	return target, nil
}

// writeAnswer writes a decision for people: the verdict, the reason, and a row for
// each limit with a known state.
func writeAnswer(b *strings.Builder, a *answer.Answer, applied *answer.Applied) {
	fmt.Fprintf(b, "%s: %s\n", verdict(a), a.Why(applied))
	if applied.Plan != "" {
		fmt.Fprintf(b, "  plan %s\n", applied.Plan)
	}
	if applied.Override != "" {
		until := "forever"
		if !applied.Until.IsZero() {
			until = "until " + applied.Until.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(b, "  override: %s (%s)\n", applied.Override, until)
	}
	for _, limit := range applied.Warnings {
		fmt.Fprintf(b, "  warning: the share of limit %s is reached\n", limit)
	}
	rows := stateRows(a)
	if len(rows) == 1 {
		return
	}
	b.WriteString("\n")
	writeTable(b, "lrrrrrr"[:len(rows[0])], rows)
}

// stateRows returns a row for each limit with a known state, below a heading. If one counts
// holds, the last column is the latest end of the next hold.
func stateRows(a *answer.Answer) [][]string {
	held := false
	for _, s := range a.Known() {
		held = held || s.MaxHold > 0
	}
	rows := [][]string{{"LIMIT", "USED", "MAX", "WINDOW", "SAME AGAIN", "EMPTY"}}
	if held {
		rows[0] = append(rows[0], "NEXT END")
	}
	for i, s := range a.Known() {
		row := []string{s.Name, number(s.Used), number(cmp.Or(s.Burst, s.Max)), answer.Window(&a.Compiled.Limits[i], s), waitText(s.RetryAfter), waitText(s.ResetAfter)}
		if s.MaxHold > 0 && s.Used > 0 {
			row = append(row, waitText(s.NextAfter))
		} else if held {
			row = append(row, "-")
		}
		rows = append(rows, row)
	}
	return rows
}

func verdict(a *answer.Answer) string {
	word := "denied"
	switch {
	case a.Decision.Allowed && a.Decision.Granted < a.N:
		word = fmt.Sprintf("allowed in part, %d of %d", a.Decision.Granted, a.N)
	case a.Decision.Allowed:
		word = "allowed"
	}
	if a.Op == weir.OpPeek {
		return "would be " + word
	}
	return word
}

// waitText returns a wait for people: now, in 3s, or never.
func waitText(d time.Duration) string {
	switch d {
	case 0:
		return "now"
	case weir.Never:
		return "never"
	}
	return "in " + answer.Wait(d)
}
