package main

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestConnectionsOfOneListenerLeaveTheOthers: with few file descriptors, many connections to
// one listener do not block the others. Probes are answered meanwhile, and every front
// afterwards.
func TestConnectionsOfOneListenerLeaveTheOthers(t *testing.T) {
	f := openFrontsWith(t, exec.Command("sh", "-c", `ulimit -n 64 && exec weir "$@"`, "weir"), "--policies", writeOutagePolicies(t))
	f.http.Transport = &http.Transport{DisableKeepAlives: true}
	f.awaitOutput(t, "64 file descriptors allow 9 connections to each listener")
	for name, address := range map[string]string{"main": f.addr, "grpc": f.rpc, "resp": f.resp} {
		var conns []net.Conn
		for range 100 { // the kernel accepts more than the listener
			c, err := net.DialTimeout("tcp", address, testTimeout)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for range 3 {
			if r, err := f.http.Get("http://" + f.Admin + "/livez"); err != nil || r.StatusCode != 200 {
				t.Errorf("connections to %s: /livez: %v, %v", name, r, err)
			} else {
				r.Body.Close()
			}
		}
		if name != "resp" {
			if got := f.attempt("resp", "denies"); got != passes {
				t.Errorf("connections to %s: resp: %s", name, got)
			}
		}
		for _, c := range conns {
			c.Close()
		}
		for _, front := range frontNames {
			must.Await(t, "after the connections to "+name+": "+front, func() bool { return f.attempt(front, "denies") == passes })
		}
	}
}

// TestTerminateBesideOpenConnections: open connections do not delay the end of weir serve until
// --drain. There are more than a listener accepts: idle ones, a call without a message, and a
// health watch. A connection that has sent nothing may take the five seconds of net/http.
func TestTerminateBesideOpenConnections(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	f := openFrontsWith(t, exec.Command("sh", "-c", `ulimit -n 64 && exec weir "$@"`, "weir"), "--policies", writeOutagePolicies(t), "--drain", "1h")
	f.awaitOutput(t, "64 file descriptors allow 9 connections to each listener")
	for address, ask := range map[string]string{f.addr: "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", f.resp: "PING\r\n", f.rpc: ""} {
		for i := range 30 {
			c, err := net.DialTimeout("tcp", address, testTimeout)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(testTimeout))
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
	// These are opened last, because a listener closes the oldest connections for newer ones.
	half, watch := dialRaw(t, f.rpc), dialRaw(t, f.rpc)
	if half.call(limitMethod) != nil || half.message(100, nil) != nil || watch.call(watchMethod) != nil || watch.message(0, nil) != nil {
		t.Fatal("no call")
	}
	f.terminate(t) // all connections are still open
	select {
	case <-f.Ended:
		f.ended(t)
	case <-time.After(testTimeout):
		t.Error("weir serve does not end")
	}
}

// isNotReady reports whether /readyz fails.
func (f *fronts) isNotReady() bool {
	r, err := f.http.Get("http://" + f.addr + "/readyz")
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusServiceUnavailable
}

// TestTerminateAnswersOnEveryListener: while weir lingers, each attempt on every listener is
// answered. On a busy machine the clients may stop too late, and then weir lingers longer in the
// next try.
func TestTerminateAnswersOnEveryListener(t *testing.T) {
	for linger := 2 * time.Second; ; linger *= 2 {
		wrong, inTime := terminateUnderLoad(t, linger)
		if !inTime && linger < time.Minute {
			t.Logf("the clients outlasted %v", linger)
			continue
		}
		for _, text := range wrong {
			t.Error(text)
		}
		return
	}
}

// terminateUnderLoad ends a weir serve while clients make attempts on every listener. It returns the
// wrong answers, and whether all clients had stopped before weir closed its listeners.
func terminateUnderLoad(t *testing.T, linger time.Duration) (wrong []string, inTime bool) {
	t.Helper()
	const clients = 3 // for each front
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--linger", linger.String())
	var answered atomic.Int64
	var left atomic.Bool
	var mu sync.Mutex // protects wrong
	var all sync.WaitGroup
	for _, front := range frontNames {
		for range clients {
			all.Go(func() {
				for !left.Load() {
					if got := f.attempt(front, "denies"); got != passes {
						mu.Lock()
						defer mu.Unlock()
						wrong = append(wrong, front+" says "+got)
						return
					}
					answered.Add(1)
				}
			})
		}
	}
	must.Await(t, "answers", func() bool { return answered.Load() >= 200 })
	begun := time.Now()
	f.terminate(t)
	isLate := func() bool { return time.Since(begun) >= linger }
	must.Await(t, "/readyz fails", func() bool { return isLate() || f.isNotReady() })
	before := answered.Load()
	must.Await(t, "answers while weir lingers", func() bool { return isLate() || answered.Load() >= before+100 })
	left.Store(true)
	all.Wait()
	inTime = !isLate()
	f.ended(t)
	return wrong, inTime
}
