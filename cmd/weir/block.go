package main

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// blockOptions are the flags of weir block.
type blockOptions struct {
	server clientFlags
	time   time.Duration
	limits []string
}

func blockCommand() *cobra.Command {
	o := blockOptions{server: clientFlags{variable: "WEIR_ADMIN_TOKEN"}}
	cmd := newCommand("block POLICY [key=value ...]", "Deny a key in a running weir for a time",
		wantArgs(1, math.MaxInt, "POLICY"), o.run)
	o.server.addTo(cmd, defaultURL, "the `URL` of weir's admin listener, or unix:/path")
	cmd.Flags().DurationVar(&o.time, "for", 0,
		"a `TIME` from now on, such as 10m or 24h; 0 ends blocks")
	cmd.Flags().StringArrayVar(&o.limits, "limit", nil,
		"only the limit of that `NAME`; repeat it for several")
	return withJSON(cmd, "print the answer as one JSON object")
}

// run sends the block to the running weir, and prints the limits that it blocks.
func (o *blockOptions) run(cmd *cobra.Command, args []string) error {
	values, err := readPairs(args[1:], "write the key as DIMENSION=VALUE")
	if err != nil {
		return err
	}
	const next = "write one such as --for 10m, and --for 0 to end blocks"
	if !cmd.Flags().Changed("for") {
		return usage(next, "--for is missing")
	}
	if o.time < 0 || o.time%time.Millisecond != 0 {
		return usage(next, "--for must be 0 or more whole milliseconds, not %v", o.time)
	}
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return err
	}
	key := map[string]string{}
	for _, v := range values {
		key[v.Name] = v.Value
	}
	body := struct {
		Policy string            `json:"policy"`
		Key    map[string]string `json:"key"`
		For    int64             `json:"for_ms"`
		Limits []string          `json:"limit_names,omitempty"`
	}{args[0], key, o.time.Milliseconds(), o.limits}
	var done struct {
		Limits []string  `json:"limits"`
		Until  time.Time `json:"blocked_until"` // zero: the key is not blocked
	}
	a, err := client.call(cmd.Context(), http.MethodPost, "/v1/block", body, &done, adminElsewhere)
	if err != nil {
		return err
	}
	if len(done.Limits) == 0 {
		return usage(adminElsewhere,
			"%s is not a weir of this version: its answer does not list the limits", client.address)
	}
	out := printable{cmd.OutOrStdout()}
	if wantsJSON(cmd) {
		_, err = out.Write(a.body)
		return err
	}
	text := strings.Join(done.Limits, ", ")
	if len(values) > 0 {
		text += " of " + strings.Join(args[1:], " ")
	}
	if done.Until.IsZero() {
		_, err = fmt.Fprintf(out, "released: %s\n", text)
		return err
	}
	_, err = fmt.Fprintf(out, "blocked: %s\nuntil: %s\n", text,
		done.Until.Local().Format("2006-01-02 15:04:05 MST"))
	return err
}
