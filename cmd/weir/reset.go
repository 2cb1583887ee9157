package main

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// resetOptions are the flags of weir reset.
type resetOptions struct {
	server clientFlags
	limits []string
}

func resetCommand() *cobra.Command {
	o := resetOptions{server: clientFlags{variable: "WEIR_ADMIN_TOKEN"}}
	cmd := newCommand("reset POLICY [key=value ...]", "Forget the use of a key in a running weir",
		wantArgs(1, math.MaxInt, "POLICY"), o.run)
	o.server.addTo(cmd, defaultURL, "the `URL` of weir's admin listener, or unix:/path")
	cmd.Flags().StringArrayVar(&o.limits, "limit", nil,
		"only the limit of that `NAME`; repeat it for several")
	return withJSON(cmd, "print the answer as one JSON object")
}

// run resets the key in the running weir, and prints which limits were reset and which were
// kept.
func (o *resetOptions) run(cmd *cobra.Command, args []string) error {
	policy := args[0]
	values, err := readPairs(args[1:], "write the key as DIMENSION=VALUE")
	if err != nil {
		return err
	}
	query := url.Values{"limit": o.limits}
	for _, v := range values {
		if v.Name == "limit" {
			return usage("name limits by --limit NAME",
				"a dimension cannot be called %q here", v.Name)
		}
		name := v.Name
		if name == "limits" { // the call has its own parameter with this name
			name = "key." + name
		}
		query.Set(name, v.Value)
	}
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return err
	}
	var done struct {
		Reset []string `json:"reset"`
		Kept  []string `json:"kept"`
	}
	path := "/v1/keys/" + url.PathEscape(policy) + "?" + query.Encode()
	a, err := client.call(cmd.Context(), http.MethodDelete, path, nil, &done, adminElsewhere)
	if err != nil {
		f, ok := errors.AsType[*failure](err)
		if ok && strings.Contains(f.Error(), " to reset") { // the problem lists the limits
			f.next = "name one by --limit NAME"
		}
		return err
	}
	if done.Reset == nil {
		return usage(adminElsewhere,
			"%s is not a weir of this version: its answer does not list the limits that were reset",
			client.address)
	}
	if wantsJSON(cmd) {
		_, err = printable{cmd.OutOrStdout()}.Write(a.body)
		return err
	}
	out := printable{cmd.OutOrStdout()}
	reset := "none"
	if len(done.Reset) > 0 {
		reset = strings.Join(done.Reset, ", ")
		if len(values) > 0 {
			reset += " of " + strings.Join(args[1:], " ")
		}
	}
	_, err = fmt.Fprintf(out, "reset: %s\n", reset)
	if len(done.Kept) > 0 {
		kept := strings.Join(done.Kept, ", ") + "\n"
		if len(o.limits) == 0 {
			kept += "  a limit that counts other callers too is reset only by --limit NAME\n"
		}
		_, failed := fmt.Fprint(out, "kept: ", kept)
		err = errors.Join(err, failed)
	}
	return err
}
