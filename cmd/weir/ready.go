package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// readyOptions are the flags of weir ready.
type readyOptions struct {
	url     string
	timeout time.Duration
	asJSON  bool
}

func readyCommand() *cobra.Command {
	var o readyOptions
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Report whether a running weir is ready",
		Args:  wantArgs(0, 0, ""),
		RunE:  func(cmd *cobra.Command, _ []string) error { return ready(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "http://127.0.0.1:7070", "the `URL` of any of weir's HTTP listeners, or unix:/path")
	f.DurationVar(&o.timeout, "timeout", 2*time.Second, "timeout of the request, 1ms to 1m")
	f.BoolVar(&o.asJSON, "json", false, "print the answer, one JSON object")
	return cmd
}

func ready(cmd *cobra.Command, o *readyOptions) error {
	if o.timeout < time.Millisecond || o.timeout > time.Minute {
		return usage("write --timeout 2s, for example", "--timeout must be 1ms to 1m, not %v", o.timeout)
	}
	client, err := newAPIClient(o.url, o.timeout)
	if err != nil {
		return err
	}
	res, body, err := client.get(cmd.Context(), "/readyz", exitDenied)
	if err != nil {
		return err
	}
	isReady := res.StatusCode == http.StatusOK
	out := printable{cmd.OutOrStdout()}
	switch {
	case o.asJSON:
		_, err = out.Write(body)
	case isReady:
		_, err = fmt.Fprintln(out, "ready")
	default:
		_, err = fmt.Fprintln(out, "not ready:", res.Status)
	}
	if err == nil && !isReady {
		err = errDenied
	}
	return err
}
