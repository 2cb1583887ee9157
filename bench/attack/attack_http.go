package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

var webAttacks = []attack{
	{"http wrong tokens", 50, 50, wrongTokenHTTP},
	{"gate wrong secrets", 20, 20, wrongSecretGate},
	{"http slow headers", 10, 100, slowHeader},
	{"http slow bodies", 10, 100, func(ctx context.Context, f *field) { slowBody(ctx, f, "/v1/check", "no-token-at-all-but-long-enough") }},
	{"http slow calls", 10, 100, func(ctx context.Context, f *field) { slowBody(ctx, f, "/v1/check", f.token()) }},
	{"http half bodies", 10, 300, halfBody},
}

// wrongTokenHTTP makes one call with a wrong token on a new connection.
func wrongTokenHTTP(ctx context.Context, f *field) {
	wrong(ctx, f, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer guess-of-a-token-that-is-wrong\r\nContent-Length: 2\r\n\r\n{}")
}

// wrongSecretGate calls a gate with a wrong secret.
func wrongSecretGate(ctx context.Context, f *field) {
	wrong(ctx, f, "GET /gate/"+audited+"?user=user-0 HTTP/1.1\r\nHost: weir\r\nWeir-Gate-Secret: guess-of-a-secret-that-is-wrong\r\n\r\n")
}

// wrong sends one request and counts its 401.
func wrong(ctx context.Context, f *field, request string) {
	conn, err := dial(ctx, f.HTTP)
	if err != nil {
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, request)
	f.read401(bufio.NewReader(conn))
}

// read401 reads an answer and counts it if its status is 401.
func (f *field) read401(in *bufio.Reader) {
	if res, err := http.ReadResponse(in, nil); err == nil && res.StatusCode == http.StatusUnauthorized {
		io.Copy(io.Discard, res.Body)
		f.unauthorized.Add(1)
	}
}

// slowHeader sends one byte of a header each second.
func slowHeader(ctx context.Context, f *field) {
	conn, err := dial(ctx, f.HTTP)
	if err != nil {
		return
	}
	trickle(ctx, conn, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nX-"+strings.Repeat("x", 200))
}

// slowBody sends a header, and then one byte of the body each second.
func slowBody(ctx context.Context, f *field, path, token string) {
	conn, err := dial(ctx, f.HTTP)
	if err != nil {
		return
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n", path, token)
	trickle(ctx, conn, `{"policy":"spare"`+strings.Repeat(" ", 100))
}

// trickle sends text, a byte a second, until the server closes the connection.
func trickle(ctx context.Context, conn net.Conn, text string) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		hold(conn)
		cancel()
	}()
	defer conn.Close()
	for i := range len(text) {
		if ctx.Err() != nil {
			return
		}
		io.WriteString(conn, text[i:i+1])
		pause(ctx, time.Second)
	}
}

// halfBody sends all but the last bytes of a body, with a valid token.
func halfBody(ctx context.Context, f *field) {
	conn, err := dial(ctx, f.HTTP)
	if err != nil {
		return
	}
	const length, sent = 64 << 10, 63 << 10
	fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", f.token(), length)
	conn.Write(make([]byte, sent))
	hold(conn)
}
