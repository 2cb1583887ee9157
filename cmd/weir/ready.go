package main

import (
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
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Second, "timeout of the request, 1ms to 1m")
	return withJSON(cmd, "print the answer, one JSON object")
}

func (o *readyOptions) run(cmd *cobra.Command, _ []string) error {
	if o.timeout < time.Millisecond || o.timeout > time.Minute {
		return usage("write --timeout 2s, for example", "--timeout must be 1ms to 1m, not %v", o.timeout)
	}
	client, err := o.server.newClient(o.timeout)
	if err != nil {
		return err
	}
	a, err := client.send(cmd.Context(), http.MethodGet, "/readyz", nil, exitDenied)
	if err != nil {
		return err
	}
	isReady := a.status == http.StatusOK
	out := printable{cmd.OutOrStdout()}
	switch {
	case asJSON(cmd):
		_, err = out.Write(a.body)
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
