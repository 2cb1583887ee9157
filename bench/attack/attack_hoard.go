package main

import (
	"bufio"
	"context"
	"io"
	"time"
)

// Each hoard tries to hold far more connections than the server has slots.
var hoardAttacks = []attack{
	{"hoard http silent", 30, 2 * maxConnections, func(ctx context.Context, f *field) { silent(ctx, f.HTTP) }},
	{"hoard http after 401", 20, 2 * maxConnections, idleAfter401},
	{"hoard resp silent", 30, 2 * maxConnections, func(ctx context.Context, f *field) { silent(ctx, f.RESP) }},
	{"hoard grpc silent", 20, 2 * maxConnections, func(ctx context.Context, f *field) { silent(ctx, f.GRPC) }},
	{"hoard grpc idle", 20, 2 * maxConnections, idleGRPC},
}

// silent connects and sends nothing.
func silent(ctx context.Context, to string) {
	if conn, err := dial(ctx, to); err == nil {
		hold(conn)
	}
}

// idleAfter401 makes a call without a token, and keeps the connection.
func idleAfter401(ctx context.Context, f *field) {
	conn, err := dial(ctx, f.HTTP)
	if err != nil {
		return
	}
	io.WriteString(conn, "GET /v1/policies HTTP/1.1\r\nHost: weir\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(patience))
	f.read401(bufio.NewReader(conn))
	conn.SetReadDeadline(time.Time{})
	hold(conn)
}

// idleGRPC opens an HTTP/2 connection and makes no call.
func idleGRPC(ctx context.Context, f *field) {
	if c, gone, err := dialHTTP2(ctx, f); err == nil {
		<-gone
		c.conn.Close()
	}
}
