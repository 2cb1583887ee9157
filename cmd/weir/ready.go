package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/redact"
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
		Short: "Ask a running weir whether it is ready",
		Long: `Ready asks /readyz of a running weir serve. The exit code is 0 if it is ready, and 1
if it is not, drains, or does not answer in time. It serves as the health check of an
image without a shell. It sends no token: readiness is public.`,
		Example: `  weir ready
  weir ready --url http://127.0.0.1:7072 --timeout 2s`,
		Args: wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return ready(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "http://127.0.0.1:7070", "the `URL` of any of weir's HTTP listeners, or unix:/path")
	f.DurationVar(&o.timeout, "timeout", 2*time.Second, "how long to wait for the answer, 1ms to 1m")
	f.BoolVar(&o.asJSON, "json", false, "print the answer, one JSON object")
	return cmd
}

// maxReady is the largest answer that is read, in bytes.
const maxReady = 1 << 20

func ready(cmd *cobra.Command, o *readyOptions) error {
	if o.timeout < time.Millisecond || o.timeout > time.Minute {
		return usage("such as --timeout 2s", "--timeout must be 1ms to 1m, not %v", o.timeout)
	}
	client, base, err := clientOf(o.url)
	if err != nil {
		return err
	}
	client.Timeout = o.timeout
	res, err := client.Get(base + "/readyz")
	if err != nil {
		return &failure{code: exitDenied, err: fmt.Errorf("%s does not answer: %w", o.url, redact.Error(err)), next: "does weir serve run there?"}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReady))
	if err != nil {
		return &failure{code: exitDenied, err: fmt.Errorf("%s broke off its answer: %w", o.url, err)}
	}
	is := res.StatusCode == http.StatusOK
	out := printable{cmd.OutOrStdout()}
	switch {
	case o.asJSON:
		_, err = out.Write(body)
	case is:
		_, err = fmt.Fprintln(out, "ready")
	default:
		_, err = fmt.Fprintln(out, "not ready:", res.Status)
	}
	if err == nil && !is {
		err = errDenied
	}
	return err
}
