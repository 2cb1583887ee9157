package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// checkOptions are the flags of weir check and weir peek.
type checkOptions struct {
	policies, store string
	server          clientFlags // the running weir that decides; "" as URL: this process does
	id              string
	n               int
	op              engine.Op
}

func checkCommand() *cobra.Command {
	o := &checkOptions{op: engine.Attempt}
	cmd := newCommand("check POLICY [key=value ...]", "Make one decision",
		wantArgs(1, math.MaxInt, "POLICY"), o.run)
	o.addTo(cmd)
	cmd.Flags().StringVar(&o.id, "id", "",
		"the idempotency key: attempts with the same `ID` are charged once")
	return withJSON(cmd, "print the answer as one JSON object")
}

func peekCommand() *cobra.Command {
	o := &checkOptions{op: engine.Peek}
	cmd := newCommand("peek POLICY [key=value ...]",
		"Show the decision that an attempt would get, and take nothing",
		wantArgs(1, math.MaxInt, "POLICY"), o.run)
	o.addTo(cmd)
	return withJSON(cmd, "print the answer as one JSON object")
}

// addTo adds the flags that check and peek share.
func (o *checkOptions) addTo(cmd *cobra.Command) {
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	o.n = 1
	units := &intValue{
		to:   &o.n,
		most: int(min(math.MaxInt, weir.MaxUnits)),
		next: "write digits alone, such as 10",
	}
	cmd.Flags().VarP(units, "units", "n", "units of the attempt")
	o.server.variable = "WEIR_TOKEN"
	o.server.addTo(cmd, "", "ask the running weir at `URL` or unix:/path, such as "+defaultURL+
		", which has its own policies and store")
}

// run makes the decision in this process or at the running weir, and prints it.
func (o *checkOptions) run(cmd *cobra.Command, args []string) error {
	ask := o.decide
	if o.server.url != "" {
		ask = o.requestDecision
	}
	if err := o.checkFlags(cmd); err != nil {
		return err
	}
	body, by, err := ask(cmd, args[0], args[1:])
	if err != nil {
		return err
	}
	a := new(shownAnswer)
	if err := json.Unmarshal(body, a); err != nil {
		return err
	}
	err = printResult(cmd, cmd.OutOrStdout(), json.RawMessage(body),
		func(b *strings.Builder) { a.write(b, o, by) })
	if wantsJSON(cmd) && o.server.url == "" && o.store == "memory" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: decided %s\n", cmd.CommandPath(), by)
	}
	if err == nil && !a.Allowed {
		err = errDenied
	}
	return err
}

// checkFlags rejects --policies and --store with --url, and --token-file and --ca without it.
func (o *checkOptions) checkFlags(cmd *cobra.Command) error {
	for _, name := range []string{"policies", "store"} {
		if o.server.url != "" && cmd.Flags().Changed(name) {
			return usage("leave out one of them",
				"--url asks a running weir, which has its own policies and store, "+
					"so --%s has no effect", name)
		}
	}
	for _, name := range []string{"token-file", "ca"} {
		if o.server.url == "" && cmd.Flags().Changed(name) {
			return usage("add --url "+defaultURL+", or leave out --"+name,
				"--%s is for a running weir, and there is no --url", name)
		}
	}
	return nil
}

// emptyMemory describes the place of a decision by the memory store.
const emptyMemory = "in an empty memory of this command; --url asks a running weir"

// decide makes the decision in this process. It returns the JSON object of POST /v1/check, and
// the place of the decision in words. A store error of a shadow policy is returned as well,
// because its answer would hide the error.
func (o *checkOptions) decide(
	cmd *cobra.Command, name string, pairs []string,
) (body []byte, by string, err error) {
	file, _, err := loadPolicies(o.policies, cmd.ErrOrStderr())
	if err != nil {
		return nil, "", err
	}
	p, err := findPolicy(file, name)
	if err != nil {
		return nil, "", err
	}
	store, err := openStore(o.store)
	if err != nil {
		return nil, "", err
	}
	defer closeStore(store, &err)
	rule, err := enforce.NewRule(p, store.Engine)
	if err != nil {
		return nil, "", usage("", "%s: %w", file.Name, err)
	}
	target, err := parseKey(rule, pairs)
	if err != nil {
		return nil, "", err
	}
	request := &enforce.Request{
		Target: target,
		Op:     o.op,
		N:      int64(o.n),
		States: make([]weir.LimitState, len(p.Limits)),
		ID:     o.id,
	}
	made, err := rule.Decide(context.Background(), request)
	err = cmp.Or(err, made.Err)
	switch {
	case errors.Is(err, &engine.InputError{Field: "id"}):
		return nil, "", usage("", "--id: %w", err)
	case answer.IsBadInput(err):
		return nil, "", usage("", "%w", err)
	case err != nil:
		return nil, "", unreachableStore(store.Name, err)
	}
	a := &answer.Answer{
		Compiled: made.Limiter.Compiled(),
		Key:      target.Key,
		Op:       request.Op,
		N:        request.N,
		Decision: made.Decision,
		States:   request.States,
		Units:    made.Units,
		Blocked:  made.Applied.Blocked,
	}
	by = emptyMemory
	if store.Memory == nil {
		by = "on " + store.Name
	}
	return a.AppendJSON(nil, &made.Applied), by, nil
}

// requestDecision requests the decision from the running weir. Its results are those of decide.
func (o *checkOptions) requestDecision(
	cmd *cobra.Command, name string, pairs []string,
) (body []byte, by string, err error) {
	values, err := readPairs(pairs, "write the key as DIMENSION=VALUE")
	if err != nil {
		return nil, "", err
	}
	request := struct {
		Policy string            `json:"policy"`
		Key    map[string]string `json:"key"`
		N      int               `json:"n"`
		ID     string            `json:"id,omitempty"`
	}{Policy: name, Key: map[string]string{}, N: o.n, ID: o.id}
	for _, v := range values {
		if !utf8.ValidString(v.Value) {
			return nil, "", usage("leave out --url, or send the value in UTF-8",
				"the value of %q is not UTF-8, and requests to weir are", v.Name)
		}
		request.Key[v.Name] = v.Value
	}
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return nil, "", err
	}
	path := "/v1/check"
	if o.op == engine.Peek {
		path = "/v1/peek"
	}
	a, err := client.call(cmd.Context(), http.MethodPost, path, request, &struct{}{},
		"is --url the address of --listen?")
	if err != nil {
		return nil, "", err
	}
	return bytes.TrimSpace(a.body), "by weir at " + client.address, nil
}

// parseKey reads the key in arguments of the form key=value, and checks it against the rule.
func parseKey(rule *enforce.Rule, pairs []string) (target enforce.Target, err error) {
	example := "write the key as"
	for _, dimension := range rule.Dimensions() {
		example += " " + dimension + "=VALUE"
	}
	values, err := readPairs(pairs, example)
	if err != nil {
		return target, err
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

// readPairs reads arguments of the form key=value. example is the next step after a mistake.
func readPairs(pairs []string, example string) (values []enforce.Pair, err error) {
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if _, err := strconv.ParseUint(pair, 10, 64); err == nil {
			return nil, usage("for "+pair+" units write -n "+pair, "%q is not key=value", pair)
		}
		if !ok {
			return nil, usage(example, "%q is not key=value", pair)
		}
		if slices.ContainsFunc(values, func(v enforce.Pair) bool { return v.Name == name }) {
			return nil, usage(example, "%q is given twice", name)
		}
		values = append(values, enforce.Pair{Name: name, Value: value})
	}
	return values, nil
}

// shownAnswer has the members of an answer of POST /v1/check that are printed.
type shownAnswer struct {
	Allowed  bool   `json:"allowed"`
	Granted  int64  `json:"granted"`
	Why      string `json:"why"`
	Plan     string `json:"plan"`
	Override *struct {
		Why   string    `json:"why"`
		Until time.Time `json:"until"` // zero = forever
	} `json:"override"`
	Warnings []string     `json:"warning_limits"`
	Limits   []shownLimit `json:"limits"`
}

// shownLimit is the state of a limit. Times are in milliseconds.
type shownLimit struct {
	Name       string `json:"name"`
	Used       int64  `json:"used"`
	Max        int64  `json:"max"`
	Burst      int64  `json:"burst"`
	Window     int64  `json:"window_ms"`
	MaxHold    int64  `json:"max_hold_ms"`
	Period     string `json:"period"`
	Zone       string `json:"zone"`
	RetryAfter int64  `json:"retry_after_ms"` // -1 = never
	Next       int64  `json:"next_ms"`
	ResetAfter int64  `json:"reset_after_ms"`
}

// write writes a decision as text: the verdict, the reason, the place of the decision, and a
// row for each limit with a known state.
func (a *shownAnswer) write(b *strings.Builder, o *checkOptions, by string) {
	fmt.Fprintf(b, "%s: %s\n  %s\n", a.verdict(o), a.Why, by)
	a.writeApplied(b)
	for _, limit := range a.Warnings {
		fmt.Fprintf(b, "  warning: the share of limit %s is reached\n", limit)
	}
	if len(a.Limits) == 0 {
		return
	}
	rows := a.rows()
	b.WriteString("\n")
	writeTable(b, "lrrrrrr"[:len(rows[0])], rows)
}

// writeApplied writes the plan and the override that applied.
func (a *shownAnswer) writeApplied(b *strings.Builder) {
	if a.Plan != "" {
		fmt.Fprintf(b, "  plan %s\n", a.Plan)
	}
	if a.Override == nil {
		return
	}
	until := "forever"
	if !a.Override.Until.IsZero() {
		until = "until " + a.Override.Until.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(b, "  override: %s (%s)\n", a.Override.Why, until)
}

// rows returns a heading and a row for each limit with a known state. With a concurrency limit,
// the last column is the wait until the next hold ends at the latest.
func (a *shownAnswer) rows() [][]string {
	held := slices.ContainsFunc(a.Limits, func(l shownLimit) bool { return l.MaxHold > 0 })
	rows := [][]string{{"LIMIT", "USED", "MAX", "WINDOW", "SAME AGAIN", "EMPTY"}}
	if held {
		rows[0] = append(rows[0], "NEXT END")
	}
	for _, l := range a.Limits {
		row := []string{l.Name, number(l.Used), number(cmp.Or(l.Burst, l.Max)), l.window(),
			waitText(l.RetryAfter), waitText(l.ResetAfter)}
		if l.MaxHold > 0 && l.Used > 0 {
			row = append(row, waitText(l.Next))
		} else if held {
			row = append(row, "-")
		}
		rows = append(rows, row)
	}
	return rows
}

// window returns the window of a limit in words. Examples are "30m", "10 per 1s" for a bucket,
// "at once" for a concurrency limit, and "day in Europe/Berlin".
func (l *shownLimit) window() string {
	length := answer.Exactly(time.Duration(l.Window) * time.Millisecond)
	switch {
	case l.Burst > 0:
		return fmt.Sprintf("%d per %s", l.Max, length)
	case l.MaxHold > 0:
		return "at once"
	case l.Period != "":
		return l.Period + " in " + l.Zone
	}
	return length
}

// verdict returns the decision in words, such as "allowed in part, 3 of 5".
func (a *shownAnswer) verdict(o *checkOptions) string {
	word := "denied"
	switch {
	case a.Allowed && a.Granted < int64(o.n):
		word = fmt.Sprintf("allowed in part, %d of %d", a.Granted, o.n)
	case a.Allowed:
		word = "allowed"
	}
	if o.op == engine.Peek {
		return "would be " + word
	}
	return word
}

// waitText returns a wait in milliseconds as text: now, in 3s, or never.
func waitText(ms int64) string {
	switch ms {
	case 0:
		return "now"
	case -1:
		return "never"
	}
	return "in " + answer.Wait(time.Duration(ms)*time.Millisecond)
}
