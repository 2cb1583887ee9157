package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// With few file descriptors a crowd on one listener silences no other: probes are
// answered all the while, and when the crowd has left everything is.
func TestFewDescriptors(t *testing.T) {
	f := openFrontsBy(t, exec.Command("sh", "-c", `ulimit -n 64 && exec weir "$@"`, "weir"), "--policies", writeOutagePolicies(t))
	f.http.Transport = &http.Transport{DisableKeepAlives: true}
	f.awaitTalk(t, "64 file descriptors allow 9 connections to each listener")
	for name, address := range map[string]string{"main": f.addr, "grpc": f.rpc, "resp": f.resp} {
		var crowd []net.Conn
		for range 100 { // the system takes those that the listener does not
			c, err := net.DialTimeout("tcp", address, patience)
			if err != nil {
				t.Fatal(err)
			}
			crowd = append(crowd, c)
		}
		for range 3 {
			if r, err := f.http.Get("http://" + f.admin + "/livez"); err != nil || r.StatusCode != 200 {
				t.Errorf("a crowd on %s: /livez: %v, %v", name, r, err)
			} else {
				r.Body.Close()
			}
		}
		if name != "resp" {
			if got := f.ask("resp", "denies"); got != passes {
				t.Errorf("a crowd on %s: resp says %s", name, got)
			}
		}
		for _, c := range crowd {
			c.Close()
		}
		for _, front := range frontNames {
			end := time.Now().Add(patience)
			for got := f.ask(front, "denies"); got != passes; got = f.ask(front, "denies") {
				if time.Now().After(end) {
					t.Fatalf("a crowd on %s has left: %s says %s", name, front, got)
				}
			}
		}
	}
	f.terminate(t)
	f.ended(t)
}

// A crowd that a listener cannot take in full keeps it neither from ending nor from
// ending well: clients that are connected and idle hold all there are, and more wait.
func TestTerminateInACrowd(t *testing.T) {
	f := openFrontsBy(t, exec.Command("sh", "-c", `ulimit -n 64 && exec weir "$@"`, "weir"), "--policies", writeOutagePolicies(t), "--drain", "1h")
	f.awaitTalk(t, "64 file descriptors allow 9 connections to each listener")
	for address, ask := range map[string]string{f.addr: "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", f.resp: "PING\r\n", f.rpc: ""} {
		if ask == "" {
			f.holdGRPC(t, 9)
		}
		for i := range 30 {
			c, err := net.DialTimeout("tcp", address, patience)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			if ask == "" || i >= 9 {
				continue
			}
			if _, err := io.WriteString(c, ask); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 512)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.terminate(t)
	f.ended(t)
}

// holdGRPC opens n connections over which nobody asks.
func (f *fronts) holdGRPC(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range n {
		conn, err := grpc.NewClient(f.rpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.Connect()
		for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
			if !conn.WaitForStateChange(ctx, s) {
				t.Fatalf("no connection to gRPC: %v", s)
			}
		}
	}
}
