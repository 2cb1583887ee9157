package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
)

// checkOptions are the flags of weir check.
type checkOptions struct {
	policies, store string
	id              string
	n               int64
	peek, json      bool
}

func checkCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check POLICY [key=value ...]",
		Short: "Make one decision",
		Long: `Check asks one policy for n units, says why in one sentence, and shows what each
limit holds. The exit code is 0 for allowed (also in part) and 1 for denied.

Where the policy has plans, the value that chooses one is given like a key; what
of plans, overrides and shadow applied is in the answer.

The memory store begins empty with every command, so on it only the first
attempt can be seen; weir serve keeps one going, weir replay makes many.`,
		Example: `  weir check demo user=ann                                     # built-in policies
  weir check --policies weir.yaml push-notifications teacher=42
  weir check --policies weir.yaml transfers account=7 -n 200000 # units, here cents
  weir check --policies weir.yaml search ip=192.0.2.7 --peek    # take nothing
  weir check --policies weir.yaml search ip=192.0.2.7 --json && send
  weir check --store redis://127.0.0.1:6379 demo user=ann --id job-42 # again after exit code 3: charged once`,
		Args: wantArgs(1, math.MaxInt, "POLICY"),
		RunE: func(cmd *cobra.Command, args []string) error { return check(cmd, o, args[0], args[1:]) },
	}
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	cmd.Flags().Int64VarP(&o.n, "units", "n", 1, "units to ask for")
	cmd.Flags().BoolVar(&o.peek, "peek", false, "answer as an attempt would be answered, and take nothing")
	cmd.Flags().StringVar(&o.id, "id", "", "the `ID` of the operation: made again with it, the attempt is charged once")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the answer as one JSON object")
	return cmd
}

func check(cmd *cobra.Command, o checkOptions, name string, pairs []string) error {
	if o.peek && o.id != "" {
		return usage("leave one of them away", "--peek takes nothing, so it has no --id")
	}
	a, by, err := ask(cmd, o, name, pairs)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.json {
		_, err = fmt.Fprintf(out, "%s\n", a.AppendJSONOf(nil, by))
	} else {
		err = printAnswer(out, a, by)
	}
	if err == nil && !a.Decision.Allowed {
		err = errDenied
	}
	return err
}

// ask makes the decision. A shadow that cannot decide is an error here: whoever
// asks on a command line wants to know.
func ask(cmd *cobra.Command, o checkOptions, name string, pairs []string) (*answer.Answer, *answer.Applied, error) {
	file, source, err := loadPolicies(o.policies, cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	p, err := findPolicy(file, source, name)
	if err != nil {
		return nil, nil, err
	}
	store, err := openStore(o.store)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	rule, err := enforce.NewRule(p, store.Engine)
	if err != nil {
		return nil, nil, usage("", "%s: %w", source, err)
	}
	whose, err := parseKey(rule, pairs)
	if err != nil {
		return nil, nil, err
	}
	a := &answer.Answer{Key: whose.Key, N: o.n, States: make([]weir.LimitState, len(p.Limits))}
	if o.peek {
		a.Op = weir.OpPeek
	}
	made, err := rule.Decide(context.Background(), &enforce.Request{Target: whose, Op: a.Op, N: o.n, At: weir.Now, States: a.States, ID: o.id})
	if err == nil {
		err = made.Err
	}
	switch {
	case errors.Is(err, weir.ErrUnits):
		return nil, nil, usage("", "-n: %w", err)
	case errors.Is(err, weir.ErrID):
		return nil, nil, usage("", "--id: %w", err)
	case err != nil:
		return nil, nil, unreachable(store.Name, err)
	}
	a.Plan, a.Units, a.Decision = made.Limiter.Plan(), made.Units, made.Decision
	return a, &made.Applied, nil
}

// parseKey makes whom it is about of arguments of the form key=value.
func parseKey(rule *enforce.Rule, pairs []string) (whose enforce.Target, err error) {
	plan := rule.Base().Limiter.Plan()
	example := "write " + strings.Join(append([]string{"weir check", plan.Name()}, exampleKey(plan)...), " ")
	values := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return whose, usage(example, "%q is not key=value", pair)
		}
		if _, twice := values[name]; twice {
			return whose, usage(example, "%q is given twice", name)
		}
		values[name] = value
	}
	if whose, err = rule.TargetOf(values); err != nil {
		return whose, usage(example, "%w", err)
	}
	return whose, nil
}

func exampleKey(plan *weir.Plan) []string {
	var pairs []string
	for _, dimension := range plan.Dimensions() {
		pairs = append(pairs, dimension+"=VALUE")
	}
	return pairs
}
