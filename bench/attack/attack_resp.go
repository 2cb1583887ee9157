package main

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

var redisAttacks = []attack{
	{"resp garbage", 30, 200, garbageRESP},
	{"resp wrong passwords", 20, 20, wrongPassword},
}

// garbage is sent before AUTH: huge lengths, lines without an end, half commands.
var garbage = []func() string{
	func() string { return "*1000000000\r\n$1000000000\r\n" },
	func() string { return "*2\r\n$4\r\nPING\r\n$65000\r\n" + strings.Repeat("x", 60_000) },
	func() string { return strings.Repeat("x", 60_000) },
	func() string { return strings.Repeat("*1\r\n$4\r\nPING\r\n", 4_000) },
	func() string { return strings.Repeat("WEIR.CHECK audited user=user-0\r\n", 100) },
	func() string {
		b := make([]byte, 4096)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return string(b)
	},
}

// garbageRESP sends one piece of garbage and holds the connection.
func garbageRESP(ctx context.Context, f *field) {
	conn, err := dial(ctx, f.RESP)
	if err != nil {
		return
	}
	go io.WriteString(conn, garbage[rand.IntN(len(garbage))]())
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	hold(conn)
}

// wrongPassword authenticates with a wrong token.
func wrongPassword(ctx context.Context, f *field) {
	conn, err := dial(ctx, f.RESP)
	if err != nil {
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "AUTH guess-of-a-token-that-is-wrong\r\n")
	if line, _ := bufio.NewReader(conn).ReadString('\n'); strings.HasPrefix(line, "-WRONGPASS") {
		f.unauthorized.Add(1)
	}
}
