package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
)

// readyOptions are the flags of weir ready.
type readyOptions struct {
	url     string
	timeout time.Duration
}

func readyCommand() *cobra.Command {
	var o readyOptions
	cmd := newCommand("ready", "Report whether a running weir is ready", wantArgs(0, 0, ""), o.run)
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "http://127.0.0.1:7070", "the `URL` of any of weir's HTTP listeners, or unix:/path")
	f.DurationVar(&o.timeout, "timeout", 2*time.Second, "timeout of the request, 1ms to 1m")
	return withJSON(cmd, "print the answer, one JSON object")
}

func (o *readyOptions) run(cmd *cobra.Command, _ []string) error {
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
	case asJSON(cmd):
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

// apiClient sends requests to a running weir serve.
type apiClient struct {
	http    http.Client
	address string // for messages
	base    string // the beginning of URLs, without a slash at the end
	token   string // the operators' token; "" = none is sent
}

// newAPIClient returns a client for the weir serve at a URL or unix:/path.
func newAPIClient(address string, timeout time.Duration) (*apiClient, error) {
	c := &apiClient{address: address, base: address, http: http.Client{Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		c.base = "http://weir"
		c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	u, err := url.Parse(c.base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usage("write --url http://127.0.0.1:7070 or --url unix:/run/weir.sock", "--url is not an address of weir: %q", redact.URL(address))
	}
	c.base = strings.TrimSuffix(u.String(), "/")
	return c, nil
}

// maxAnswer is the largest answer that is read, in bytes.
const maxAnswer = 16 << 20

// get requests a path. Without an answer the error is a failure with a code.
func (c *apiClient) get(ctx context.Context, path string, code int) (res *http.Response, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, nil, usage("", "--url: %w", err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if res, err = c.http.Do(r); err == nil {
		defer res.Body.Close()
		body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	}
	if err != nil {
		err = &failure{code: code, err: fmt.Errorf("%s does not answer: %w", c.address, redact.Error(err)), next: "does weir serve run there?"}
	}
	return res, body, err
}
