package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/answer"
)

// overridesOptions are the flags of the verbs of weir overrides.
type overridesOptions struct {
	server         clientFlags
	limit          string
	max            int
	until          string
	lasts          time.Duration
	reason, author string
	version        string
	force          bool
}

func overridesCommand() *cobra.Command {
	verb := func(
		use, short, argument string, most int, run func(*overridesOptions, *cobra.Command, []string) error,
		flags ...func(*overridesOptions, *cobra.Command),
	) *cobra.Command {
		o := &overridesOptions{server: clientFlags{variable: "WEIR_ADMIN_TOKEN"}}
		least := 0
		if argument == "POLICY" && most > 1 {
			least = 1
		}
		cmd := newCommand(use, short, wantArgs(least, most, argument),
			func(cmd *cobra.Command, args []string) error { return run(o, cmd, args) })
		o.server.addTo(cmd, defaultURL, "the `URL` of weir's admin listener, or unix:/path")
		for _, add := range flags {
			add(o, cmd)
		}
		return cmd
	}
	jsonFlag := func(_ *overridesOptions, cmd *cobra.Command) {
		withJSON(cmd, "print the answer as one JSON object")
	}
	return newParentCommand("overrides list|set|delete|export",
		"List and change the overrides of a running weir",
		verb("list [POLICY]", "List the overrides of the store and of the policy file", "POLICY", 1,
			(*overridesOptions).list, jsonFlag),
		verb("set POLICY key=value ...", "Set another number for a limit of a key", "POLICY",
			math.MaxInt, (*overridesOptions).set, (*overridesOptions).addChange,
			(*overridesOptions).addNumbers, jsonFlag),
		verb("delete POLICY key=value ...", "Delete an override of the store", "POLICY",
			math.MaxInt, (*overridesOptions).delete, (*overridesOptions).addChange, jsonFlag),
		verb("export [POLICY]", "Print the overrides of the store for a policy file", "POLICY", 1,
			(*overridesOptions).export),
	)
}

// addChange adds the flags that set and delete share.
func (o *overridesOptions) addChange(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.limit, "limit", "", "the `NAME` of the limit, if the policy has several")
	f.StringVar(&o.reason, "reason", "", "a `SENTENCE` for the log and for the next operator")
	f.StringVar(&o.author, "author", "", "your `NAME`; default: $USER")
	f.StringVar(&o.version, "if-version", "",
		"only if the override has this `VERSION`, as list --json shows it")
}

// addNumbers adds the flags that only set has.
func (o *overridesOptions) addNumbers(cmd *cobra.Command) {
	f := cmd.Flags()
	units := &intValue{
		to:   &o.max,
		most: int(min(math.MaxInt, weir.MaxUnits)),
		next: "write digits alone, such as --max 100",
	}
	f.Var(units, "max", "the `UNITS` per window, in place of those of the limit")
	f.DurationVar(&o.lasts, "for", 0, "a `TIME` from now on, such as 2h; default: no end")
	f.StringVar(&o.until, "until", "",
		"an `INSTANT` such as 2026-12-31T18:00:00Z, or a day, in place of --for")
	f.BoolVar(&o.force, "force", false, "permit fewer units than the policy file")
}

// overrideBody is the JSON body of a request that sets or deletes an override.
type overrideBody struct {
	Key    map[string]string `json:"key"`
	Limit  string            `json:"limit,omitempty"`
	Max    *int64            `json:"max,omitempty"`
	Until  string            `json:"until,omitempty"`
	Reason string            `json:"reason"`
	Author string            `json:"author"`
	Force  bool              `json:"force,omitempty"`
}

// list prints the overrides of all policies, or of the one that args name.
func (o *overridesOptions) list(cmd *cobra.Command, args []string) error {
	all, body, err := o.read(cmd, args)
	if err != nil {
		return err
	}
	out := printable{cmd.OutOrStdout()}
	if wantsJSON(cmd) {
		_, err = out.Write(body)
		return err
	}
	var b strings.Builder
	if all.Problem != "" {
		fmt.Fprintln(&b, all.Problem)
	}
	if len(all.Overrides) == 0 {
		b.WriteString("no overrides\n")
	}
	for i := range all.Overrides {
		describeOverride(&b, &all.Overrides[i])
	}
	_, err = fmt.Fprint(out, b.String())
	return err
}

// read returns the overrides of all policies, or of the one that args name. body is the JSON of
// the answer.
func (o *overridesOptions) read(
	cmd *cobra.Command, args []string,
) (all httpapi.OverrideList, body []byte, err error) {
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return all, nil, err
	}
	path := "/v1/overrides"
	if len(args) > 0 {
		path += "/" + url.PathEscape(args[0])
	}
	a, err := client.call(cmd.Context(), http.MethodGet, path, nil, &all, adminElsewhere)
	if err != nil {
		return all, nil, err
	}
	if all.Overrides == nil {
		return all, nil, versionFailure(client)
	}
	return all, a.body, nil
}

// versionFailure returns the failure for an answer without overrides. Such an answer comes from
// an older weir or another program.
func versionFailure(client *apiClient) error {
	return usage(adminElsewhere,
		"%s is not a weir of this version: its answer has no overrides", client.address)
}

// onlyLimitName is the name of the limit in a policy that has limit: instead of limits: in the
// file.
const onlyLimitName = "limit"

// describeOverride writes an override: a line with its key and number, and indented lines with
// its end, author, reason and use.
func describeOverride(b *strings.Builder, o *httpapi.Override) {
	number := cmp.Or(o.Sentence, strconv.FormatInt(o.Max, 10))
	if o.Limit == "" {
		number = ""
	}
	if o.Plan != "" {
		number = strings.TrimPrefix(number+", plan "+o.Plan, ", ")
	}
	limit := ""
	if o.Limit != "" && o.Limit != onlyLimitName {
		limit = ", limit " + o.Limit
	}
	fmt.Fprintf(b, "%s %s%s: %s\n", o.Policy, keyOfOverride(o.Key), limit, number)
	until := "no end"
	if o.Until != "" {
		until = "until " + localTime(o.Until)
	}
	by := "of the policy file"
	if o.Author != "" {
		by = "by " + answer.Shown(o.Author)
	}
	fmt.Fprintf(b, "  %s, %s: %s\n", until, by, o.Reason)
	if o.LastUsed != "" {
		fmt.Fprintf(b, "  last used %s\n", localTime(o.LastUsed))
	}
	if o.NotApplied != "" {
		fmt.Fprintf(b, "  not applied: %s\n", o.NotApplied)
	}
}

// localTime returns an instant of the API in the time zone of this machine.
func localTime(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return answer.Shown(stamp)
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// keyOfOverride returns a key as name=value pairs, sorted by name.
func keyOfOverride(key map[string]string) string {
	var all []string
	for name, value := range key {
		all = append(all, name+"="+answer.Shown(value))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// set sets an override in the running weir, and prints it.
func (o *overridesOptions) set(cmd *cobra.Command, args []string) error {
	body, err := o.newBody(args, "weir overrides set search ip=192.0.2.7 --max 100 --reason …")
	if err != nil {
		return err
	}
	flags := cmd.Flags()
	if !flags.Changed("max") {
		return usage("write one such as --max 100", "--max is missing")
	}
	most := int64(o.max)
	body.Max = &most
	body.Force = o.force
	switch {
	case flags.Changed("for") && flags.Changed("until"):
		return usage("leave out one of them", "--for and --until are both the end")
	case flags.Changed("for") && o.lasts <= 0:
		return usage("write one such as --for 2h", "--for must be above 0, not %v", o.lasts)
	case flags.Changed("for"):
		body.Until = time.Now().Add(o.lasts).UTC().Format(time.RFC3339)
	default:
		body.Until = o.until
	}
	var now httpapi.Override
	client, a, err := o.sendChange(cmd, http.MethodPut, args[0], body, &now)
	if err != nil {
		return err
	}
	if now.Version == "" {
		return versionFailure(client)
	}
	return printOverride(cmd, a, "set", &now)
}

// delete deletes an override in the running weir, and prints it.
func (o *overridesOptions) delete(cmd *cobra.Command, args []string) error {
	body, err := o.newBody(args, "weir overrides delete search ip=192.0.2.7 --reason …")
	if err != nil {
		return err
	}
	var done struct {
		Deleted httpapi.Override `json:"deleted"`
	}
	client, a, err := o.sendChange(cmd, http.MethodDelete, args[0], body, &done)
	if err != nil {
		return err
	}
	if done.Deleted.Version == "" {
		return versionFailure(client)
	}
	return printOverride(cmd, a, "deleted", &done.Deleted)
}

// newBody returns the body of a request to set or delete an override. example is a complete
// command.
func (o *overridesOptions) newBody(args []string, example string) (*overrideBody, error) {
	values, err := readPairs(args[1:], "write the key as DIMENSION=VALUE")
	if err != nil {
		return nil, err
	}
	switch {
	case len(values) == 0:
		return nil, usage("write one such as "+example, "the key is missing")
	case o.reason == "":
		return nil, usage(`write one such as --reason "import of the archive, ticket 4711"`,
			"--reason is missing")
	}
	body := &overrideBody{
		Key:    map[string]string{},
		Limit:  o.limit,
		Reason: o.reason,
		Author: cmp.Or(o.author, userName()),
	}
	for _, v := range values {
		body.Key[v.Name] = v.Value
	}
	if body.Author == "" {
		return nil, usage("write your name by --author", "--author is missing, and $USER is not set")
	}
	return body, nil
}

// userName returns $USER or the name of the user of this process, "" if neither is known.
func userName() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// sendChange sends a request to set or delete an override, and reads the answer into result.
// The next step of an error names flags in place of members of the body.
func (o *overridesOptions) sendChange(
	cmd *cobra.Command, method, policy string, body *overrideBody, result any,
) (*apiClient, *apiAnswer, error) {
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return nil, nil, err
	}
	if o.version != "" {
		client.match = strconv.Quote(o.version)
	}
	path := "/v1/overrides/" + url.PathEscape(policy)
	a, err := client.call(cmd.Context(), method, path, body, result, adminElsewhere)
	f, ok := errors.AsType[*failure](err)
	switch {
	case !ok:
	case strings.Contains(f.Error(), `"force": true`): // the problem names a member of the body
		f.next = "add --force"
	case strings.Contains(f.Error(), "no such override"):
		f.next = "weir overrides list " + policy + " shows them"
	case strings.Contains(f.Error(), "send its version"):
		f.next = "weir overrides list --json " + policy + " shows it"
	}
	return client, a, err
}

// printOverride prints the override in the answer to a change. done is the verb, such as
// deleted.
func printOverride(cmd *cobra.Command, a *apiAnswer, done string, o *httpapi.Override) error {
	out := printable{cmd.OutOrStdout()}
	if wantsJSON(cmd) {
		_, err := out.Write(a.body)
		return err
	}
	var b strings.Builder
	describeOverride(&b, o)
	_, err := fmt.Fprintf(out, "%s: %s", done, b.String())
	return err
}

// export prints the overrides of the store in the notation of a policy file.
func (o *overridesOptions) export(cmd *cobra.Command, args []string) error {
	all, _, err := o.read(cmd, args)
	if err != nil {
		return err
	}
	var policies httpapi.PolicyList
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return err
	}
	_, err = client.call(
		cmd.Context(), http.MethodGet, "/v1/policies", nil, &policies, adminElsewhere)
	if err != nil {
		return err
	}
	text := exportOverrides(all.Overrides, &policies)
	if all.Problem != "" {
		text = "# " + all.Problem + "\n" + text
	}
	_, err = fmt.Fprint(printable{cmd.OutOrStdout()}, text)
	return err
}

// sortedNames returns the keys of a map in alphabetical order.
func sortedNames[V any](all map[string]V) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
