package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

var fileAttacks = []attack{
	{"files hostile reloads", 0.5, 1, hostileReload},
	{"files token rotation", 0.2, 1, rotateToken},
}

// hostile holds files of a careless or hostile process. None may change the limits in
// force.
var hostile = []struct {
	name string
	text func() string
}{
	{"weir.yaml", func() string { return "" }},
	{"weir.yaml", func() string { return goodPolicies + "  " + audited + ": {limit: 1000000 per 1s per user}\n" }},
	{"weir.yaml", func() string { return goodPolicies[:rand.IntN(len(goodPolicies))] + "\x00" }},
	{"weir.yaml", func() string { return "version: 1\npolicies: " + strings.Repeat("[", 100_000) }},
	{"weir.yaml", func() string {
		return "version: 1\npolicies:\n" + strings.Repeat("  "+strings.Repeat("x", 60)+": {limit: 1 per", 20_000)
	}},
	{"envoy.yaml", func() string { return "domain: [" }},
	{"envoy.yaml", func() string { return strings.Repeat("{a: ", 50_000) }},
	{"envoy.yaml", func() string {
		return "a: &a " + strings.Repeat("x", 3_000_000) + "\ndomain: spare-domain\ndescriptors:\n" + strings.Repeat("- {key: k, value: *a}\n", 20_000)
	}},
	{"envoy.yaml", func() string {
		var b strings.Builder
		b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
		for i := 1; i < 12; i++ {
			fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
		}
		return b.String() + "domain: *a11\n"
	}},
}

// hostileReload installs one hostile file, and then the good one again.
func hostileReload(ctx context.Context, f *field) {
	one := hostile[rand.IntN(len(hostile))]
	f.replace(one.name, []byte(one.text()))
	pause(ctx, time.Second)
	f.replace("weir.yaml", []byte(goodPolicies))
	f.replace("envoy.yaml", []byte(goodEnvoy))
}

// revocation is the time for which an old token may still work: the file is read within a
// second of its first use, and a connection is closed within another second.
const revocation = 3 * time.Second

// rotateToken opens a connection of each front with the current token, removes that token
// from the file, and calls again.
func rotateToken(ctx context.Context, f *field) {
	old := f.token()
	callers := map[string]func() error{}
	if conn, err := dial(ctx, f.HTTP); err == nil {
		defer conn.Close()
		in := bufio.NewReader(conn)
		callers["HTTP"] = func() error { return checkHTTP(conn, in, old) }
	}
	if c, err := dialRedis(f.target, address(), old); err == nil {
		defer c.close()
		callers["RESP"] = func() error {
			c.conn.SetDeadline(time.Now().Add(patience))
			_, err := c.command("WEIR.CHECK spare user=rotation")
			return err
		}
	}
	if conn, err := dialProxy(f.target, address()); err == nil {
		defer conn.Close()
		p := proxy{conn, old}
		callers["gRPC"] = func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			_, err := p.check(ctx, "rotation-of-no-user")
			return err
		}
	}
	for name, call := range callers {
		if call() != nil {
			delete(callers, name) // no slot for it: there is nothing to revoke
		}
	}
	next := f.generation.Load() + 1
	if f.replace("token", []byte(f.tokens(next))) != nil {
		return
	}
	f.generation.Store(next)
	pause(ctx, revocation)
	if ctx.Err() != nil {
		return
	}
	for name, call := range callers {
		if call() == nil && ctx.Err() == nil {
			f.mu.Lock()
			f.revoked = append(f.revoked, fmt.Sprintf("%s, %v after rotation %d", name, revocation, next))
			f.mu.Unlock()
		}
	}
}

// checkHTTP makes one call on an open connection; it fails unless the answer is 200.
func checkHTTP(conn io.ReadWriter, in *bufio.Reader, token string) error {
	const body = `{"policy":"spare","key":{"user":"rotation"}}`
	fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", res.Status)
	}
	return nil
}
