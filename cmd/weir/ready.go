package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// readyOptions are the flags of weir ready.
type readyOptions struct {
	server  clientFlags
	timeout time.Duration
}

func readyCommand() *cobra.Command {
	var o readyOptions
	cmd := newCommand("ready", "Report whether a running weir is ready", wantArgs(0, 0, ""), o.run)
	o.server.addTo(cmd, defaultURL, "the `URL` of any of weir's HTTP listeners, or unix:/path")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Second,
		"timeout of the request, 1ms to 1m")
	return withJSON(cmd, "print the answer, one JSON object")
}

// run prints whether the running weir is ready. Its exit code is 0 for ready and 1 for not
// ready.
func (o *readyOptions) run(cmd *cobra.Command, _ []string) error {
	if o.timeout < time.Millisecond || o.timeout > time.Minute {
		return usage("write --timeout 2s, for example",
			"--timeout must be 1ms to 1m, not %v", o.timeout)
	}
	client, err := o.server.newClient(o.timeout)
	if err != nil {
		return err
	}
	a, err := client.send(cmd.Context(), http.MethodGet, "/readyz", nil, exitDenied)
	if err != nil {
		return err
	}
	var state readiness
	isWeir := json.Unmarshal(a.body, &state) == nil && state.Ready != nil
	// A proxy answers 5xx for a weir that is gone.
	if !isWeir && a.status < http.StatusInternalServerError {
		return client.readinessFailure(a)
	}
	isReady := a.status == http.StatusOK
	out := printable{cmd.OutOrStdout()}
	switch {
	case wantsJSON(cmd):
		_, err = out.Write(a.body)
	case isReady && state.StoreDown != "":
		_, err = fmt.Fprintf(out, "ready\n  the store is down: %s\n", state.StoreDown)
	case isReady:
		_, err = fmt.Fprintln(out, "ready")
	default:
		_, err = fmt.Fprintln(out, "not ready:", a.text)
	}
	if err == nil && !isReady {
		err = errDenied
	}
	return err
}

// readiness has the members of /readyz that are printed. A listener that requires a token sends
// only the member ready.
type readiness struct {
	Ready     *bool  `json:"ready"`
	StoreDown string `json:"store_down"`
}

// readinessFailure returns the failure for an answer that is not one of weir's /readyz.
func (c *apiClient) readinessFailure(a *apiAnswer) error {
	const next = "is --url the address of weir, without a path?"
	switch a.status {
	case http.StatusOK:
		return usage(next, "%s is not a weir: its answer to GET /readyz is malformed", c.address)
	case http.StatusUnauthorized: // weir requires no token for /readyz, so a proxy answers
		return usage(next, "%s answers %s to GET /readyz", c.address, a.text)
	}
	return c.statusFailure(a, "GET /readyz", next)
}
