package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/redact"
)

// clientOf returns an HTTP client for the weir serve at an address, a URL or unix:/path,
// and the base of its URLs, without a slash at the end.
func clientOf(address string) (client *http.Client, base string, err error) {
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
		return nil, "", usage("such as --url http://127.0.0.1:7070 or --url unix:/run/weir.sock", "--url is no address of weir: %q", redact.URL(address))
	}
	return client, strings.TrimSuffix(u.String(), "/"), nil
}
