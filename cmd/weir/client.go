package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/redact"
)

// newHTTPClient returns an HTTP client for the weir serve at an address, a URL or
// unix:/path, and the base of its URLs without a slash at the end.
func newHTTPClient(address string) (client *http.Client, base string, err error) {
	client = &http.Client{Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	base = address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		base = "http://weir"
		client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, "", usage("write --url http://127.0.0.1:7070 or --url unix:/run/weir.sock", "--url is not an address of weir: %q", redact.URL(address))
	}
	return client, strings.TrimSuffix(u.String(), "/"), nil
}

// noAnswer returns the failure, with an exit code, of a weir that does not answer.
func noAnswer(code int, address string, err error) error {
	return &failure{code: code, err: fmt.Errorf("%s does not answer: %w", address, redact.Error(err)), next: "does weir serve run there?"}
}
