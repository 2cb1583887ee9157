package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var rpcAttacks = []attack{
	{"grpc header flood", 16, 16, headerFlood},
	{"grpc partial headers", 500, 1500, partialHeaders},
	{"grpc deadlines", 200, 2400, deadlines},
	{"grpc header lists", 10, 100, headerLists},
	{"grpc half messages", 10, 100, halfMessages},
	{"grpc hostile watches", 5, 10, hostileWatches},
	{"grpc wrong tokens", 20, 20, wrongTokenGRPC},
}

// headerFlood sends one header list of 200,000 references to a field of 4 KB: 0.2 MB
// that a server without a bound turns into hundreds of MB.
func headerFlood(ctx context.Context, f *field) {
	c, gone, err := dialHTTP2(ctx, f)
	if err != nil {
		return
	}
	defer c.conn.Close()
	c.hpack.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 4000)})
	block := append([]byte(nil), c.out.Bytes()...)
	const newest = 0x80 | 62 // the first entry of the dynamic table
	for range 200_000 {
		block = append(block, newest)
	}
	c.mu.Lock()
	const most = 16 << 10
	err = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: block[:most]})
	for block = block[most:]; err == nil && len(block) > 0; {
		n := min(most, len(block))
		err = c.framer.WriteContinuation(c.stream, n == len(block), block[:n])
		block = block[n:]
	}
	c.mu.Unlock()
	linger(ctx, gone, 5*time.Second)
}

// partialHeaders begins a header list and never ends it.
func partialHeaders(ctx context.Context, f *field) {
	c, gone, err := dialHTTP2(ctx, f)
	if err != nil {
		return
	}
	defer c.conn.Close()
	if c.headers(rateLimitMethod, false) == nil {
		linger(ctx, gone, time.Minute)
	}
}

// deadlines makes ten calls without a token, each with a deadline in hours and without a
// message.
func deadlines(ctx context.Context, f *field) {
	c, gone, err := dialHTTP2(ctx, f)
	if err != nil {
		return
	}
	defer c.conn.Close()
	for range 10 {
		if _, err := c.open(rateLimitMethod, hpack.HeaderField{Name: "grpc-timeout", Value: "90H"}); err != nil {
			return
		}
	}
	linger(ctx, gone, time.Minute)
}

// headerLists begins a hundred health checks, each with a header list near the bound, and
// sends no message.
func headerLists(ctx context.Context, f *field) {
	c, gone, err := dialHTTP2(ctx, f)
	if err != nil {
		return
	}
	defer c.conn.Close()
	for i := range 100 {
		if _, err := c.open(checkMethod, hpack.HeaderField{Name: "x", Value: strings.Repeat(fmt.Sprintf("%04d", i), 3800)}); err != nil {
			return
		}
	}
	linger(ctx, gone, 30*time.Second)
}

// halfMessages opens a hundred calls on one connection. Each sends 16 KiB of a message
// of a MiB, and no more.
func halfMessages(ctx context.Context, f *field) {
	c, gone, err := dialHTTP2(ctx, f)
	if err != nil {
		return
	}
	defer c.conn.Close()
	half := make([]byte, 16<<10-5)
	for range 100 {
		stream, err := c.open(rateLimitMethod)
		if err != nil {
			return
		}
		if err := c.message(stream, 1<<20, half[:1<<10], false); err != nil {
			return
		}
	}
	linger(ctx, gone, 30*time.Second)
}

// hostileWatches opens a hundred health streams with unknown names.
func hostileWatches(ctx context.Context, f *field) {
	c, gone, err := dialHTTP2(ctx, f)
	if err != nil {
		return
	}
	defer c.conn.Close()
	for i := range 100 {
		stream, err := c.open(watchMethod)
		if err != nil {
			return
		}
		name := fmt.Sprintf("%-60d", int(time.Now().UnixNano())+i)
		request := append([]byte{0x0a, byte(len(name))}, name...) // HealthCheckRequest.service
		if err := c.message(stream, len(request), request, true); err != nil {
			return
		}
	}
	linger(ctx, gone, 30*time.Second)
}

// linger waits until the server has closed the connection, for at most d.
func linger(ctx context.Context, gone chan struct{}, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-gone:
	case <-time.After(d):
	}
}

// wrongTokenGRPC makes one call with a wrong token on a new connection.
func wrongTokenGRPC(ctx context.Context, f *field) {
	conn, err := dialProxy(f.target, address())
	if err != nil {
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := proxy{conn, "guess-of-a-token-that-is-wrong"}
	if _, err := p.ask(ctx, &pb.RateLimitRequest{Domain: audited}); status.Code(err) == codes.Unauthenticated {
		f.unauthorized.Add(1)
	}
}
