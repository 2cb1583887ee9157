package weirgrpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// TestMetadataIsOfTheCall: outgoing metadata of a handler that calls another service is not
// that of the incoming call.
func TestMetadataIsOfTheCall(t *testing.T) {
	both := metadata.NewIncomingContext(as("ours"), metadata.Pairs("tenant", "theirs"))
	out := as("ours")
	in := metadata.NewIncomingContext(context.Background(), metadata.Pairs("Tenant", "theirs"))
	for _, c := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"a server", in, "theirs"},
		{"a server that has prepared a call of its own", both, "theirs"},
		{"a server whose caller names nobody", out, ""},
	} {
		got, err := Metadata("tenant")(c.ctx, &Call{})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// TestPeerIPHasOneForm: an IPv4 address has one form, and an IPv6 address is its /64.
func TestPeerIPHasOneForm(t *testing.T) {
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 1}, "192.0.2.7"},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 1}, "192.0.2.7"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2::7"), Port: 1}, "2001:db8:1:2::/64"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 2}, "fe80::/64"},
		{text("[2001:DB8:1:2::9]:443"), "2001:db8:1:2::/64"}, // of grpc.Server.ServeHTTP
		{text("pipe"), ""},
		{&net.UnixAddr{Name: "/run/x"}, ""},
		{nil, ""},
	} {
		got, err := PeerIP(peer.NewContext(context.Background(), &peer.Peer{Addr: c.addr}), &Call{})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: %q, %v; want %q", c.addr, got, err, c.want)
		}
		if err != nil && (errors.As(err, new(*KeyError)) || !strings.Contains(err.Error(), "write a ValueFunc")) {
			t.Errorf("%v: %v; want a fault of the program with the next step", c.addr, err)
		}
	}
}

// TestPeerIPOfForwardedCallsWarnsOnce: without a word, all clients behind a proxy would share
// one history.
func TestPeerIPOfForwardedCallsWarnsOnce(t *testing.T) {
	from := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 1}})
	for _, c := range []struct {
		name  string
		lines int
	}{{"x-forwarded-for", 1}, {"x-real-ip", 1}, {"x-client-ip", 1}, {"tenant", 0}} {
		var out bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		forwarded = proxyWarning{}
		for range 3 {
			PeerIP(metadata.NewIncomingContext(from, metadata.Pairs(c.name, "203.0.113.9")), &Call{})
		}
		slog.SetDefault(before)
		text := out.String()
		if n := strings.Count(text, "\n"); n != c.lines || strings.Contains(text, "203.0.113.9") || n > 0 && !strings.Contains(text, "write a ValueFunc") {
			t.Errorf("%s: logged %q; want %d lines with the next step and without the client", c.name, text, c.lines)
		}
	}
}

// text is an address of no known type.
type text string

func (text) Network() string  { return "tcp" }
func (t text) String() string { return string(t) }
