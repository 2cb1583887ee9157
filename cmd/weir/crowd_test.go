package main

import (
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"
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
