package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// withoutUser is an address without what may be a password in it, for messages.
func withoutUser(address string) string {
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		return "…" + address[i:]
	}
	return address
}

// clientOf returns a client of the weir serve at an address that a user wrote, a URL or
// unix:/path, and what its URLs begin with, without a slash at the end.
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
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, "", usage("such as --url http://127.0.0.1:7070 or --url unix:/run/weir.sock", "--url is no address of weir: %q", withoutUser(address))
	}
	return client, strings.TrimSuffix(u.String(), "/"), nil
}
