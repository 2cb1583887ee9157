package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// checkOptions are the flags of weir check.
type checkOptions struct {
	policies, store string
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

The memory store begins empty with every command, so on it only the first
attempt can be seen; weir serve keeps one going, weir replay makes many.`,
		Example: `  weir check demo user=ann                                     # built-in policies
  weir check --policies weir.yaml push-notifications teacher=42
  weir check --policies weir.yaml transfers account=7 -n 200000 # units, here cents
  weir check --policies weir.yaml search ip=192.0.2.7 --peek    # take nothing
  weir check --policies weir.yaml search ip=192.0.2.7 --json && send`,
		Args: wantArgs(1, math.MaxInt, "POLICY"),
		RunE: func(cmd *cobra.Command, args []string) error { return check(cmd, o, args[0], args[1:]) },
	}
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	cmd.Flags().Int64VarP(&o.n, "units", "n", 1, "units to ask for")
	cmd.Flags().BoolVar(&o.peek, "peek", false, "answer as an attempt would be answered, and take nothing")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the answer as one JSON object")
	return cmd
}

func check(cmd *cobra.Command, o checkOptions, name string, pairs []string) error {
	a, err := ask(cmd, o, name, pairs)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.json {
		_, err = fmt.Fprintf(out, "%s\n", a.AppendJSON(nil))
	} else {
		err = printAnswer(out, a)
	}
	if err == nil && !a.Decision.Allowed {
		err = errDenied
	}
	return err
}

// ask makes the decision.
func ask(cmd *cobra.Command, o checkOptions, name string, pairs []string) (*answer.Answer, error) {
	file, source, err := loadPolicies(o.policies, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	p, err := findPolicy(file, source, name)
	if err != nil {
		return nil, err
	}
	store, err := openStore(o.store)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	limiter, err := weir.New(p.Policy, weir.WithEngine(store.Engine))
	if err != nil {
		return nil, usage("", "%s: %w", source, err)
	}
	key, err := parseKey(limiter.Plan(), pairs)
	if err != nil {
		return nil, err
	}
	a := &answer.Answer{Plan: limiter.Plan(), Key: key, N: o.n, Units: p.Units}
	if o.peek {
		a.Op = weir.OpPeek
	}
	a.Decision, a.States, err = limiter.Inspect(context.Background(), key, a.Op, o.n)
	if errors.Is(err, weir.ErrUnits) {
		return nil, usage("", "-n: %w", err)
	}
	if err != nil {
		return nil, unreachable(store.Name, err)
	}
	return a, nil
}

// parseKey makes the policy's key of arguments of the form key=value.
func parseKey(plan *weir.Plan, pairs []string) (weir.Key, error) {
	example := "write " + strings.Join(append([]string{"weir check", plan.Name()}, exampleKey(plan)...), " ")
	values := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return weir.Key{}, usage(example, "%q is not key=value", pair)
		}
		if _, twice := values[name]; twice {
			return weir.Key{}, usage(example, "%q is given twice", name)
		}
		values[name] = value
	}
	key, err := plan.Key(values)
	if err != nil {
		return key, usage(example, "%w", err)
	}
	return key, nil
}

func exampleKey(plan *weir.Plan) []string {
	var pairs []string
	for _, dimension := range plan.Dimensions() {
		pairs = append(pairs, dimension+"=VALUE")
	}
	return pairs
}
