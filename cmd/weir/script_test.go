package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/testkit/program"
)

// exits CODE program [args...] runs a program that must exit with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}

// A background is the weir serve that a script has started. Each script has its own.
type background struct{ *program.Server }

// serve [args...] starts weir serve on a free port, waits until it listens, and sets $URL. The
// store has a long timeout, because the machine may be busy. weir does not linger, because no
// load balancer has to notice the end.
func serveInBackground(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: serve [args...]")
	}
	cmd := exec.Command("weir", append([]string{"serve", "--listen", "127.0.0.1:0", "--store-budget", "20s", "--linger", "0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "GORACE="+ts.Getenv("GORACE"))
	s, err := program.Start(cmd)
	ts.Check(err)
	ts.Value(background{}).(*background).Server = s
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait() })
	ts.Check(s.Await(func(output string) bool { return listensOn.MatchString(output) }))
	ts.Setenv("URL", strings.Join(listensOn.FindStringSubmatch(s.Output())[1:], ""))
}

// listensOn finds the URL in the output, in text or JSON.
var listensOn = regexp.MustCompile(`listens on (\S+)\n|"listen":"([^"]+)"`)

// post URL BODY FILE posts a body and writes the answer to a file.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: post URL BODY FILE")
	}
	res, err := http.Post(args[0], "application/json", strings.NewReader(args[1]))
	ts.Check(err)
	save(ts, res, args[2])
}

// get URL FILE gets a page and writes it to a file.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get URL FILE")
	}
	res, err := http.Get(args[0])
	ts.Check(err)
	save(ts, res, args[1])
}

func save(ts *testscript.TestScript, res *http.Response, file string) {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(file), body, 0o666))
}

// signal NAME FILE sends a signal to weir serve again and again until it ends. After TERM or
// INT it must exit with 0. Its stderr is written to a file.
func signalServer(ts *testscript.TestScript, neg bool, args []string) {
	b := ts.Value(background{}).(*background)
	if neg || len(args) != 2 || b.Server == nil {
		ts.Fatalf("usage, after serve: signal TERM|INT|KILL FILE")
	}
	http.DefaultClient.CloseIdleConnections() // otherwise weir waits a second for this client
	sig := syscall.SIGTERM
	switch args[0] {
	case "INT":
		sig = syscall.SIGINT
	case "KILL":
		sig = syscall.SIGKILL
	}
	ts.Check(b.Process.Signal(sig))
	for ended := false; !ended; { // operators repeat a signal as well
		select {
		case <-b.Ended:
			ended = true
		case <-time.After(time.Millisecond):
			_ = b.Process.Signal(sig) // the process may have ended
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.Output()), 0o666))
	if err := b.Wait(); err != nil && sig != syscall.SIGKILL {
		ts.Fatalf("after SIG%s: %v; it said:\n%s", args[0], err, b.Output())
	}
}

// ratelimit SOCKET DOMAIN FILE key=value[,key=value]... sends a request over gRPC, in which
// each word is a descriptor. It writes the answer to a file: a line for each status with the
// code, the remaining units and the limit, then the header fields.
func ratelimit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: ratelimit SOCKET DOMAIN FILE key=value[,key=value]...")
	}
	r := &pb.RateLimitRequest{Domain: args[1]}
	for _, word := range args[3:] {
		d := &common.RateLimitDescriptor{}
		for _, entry := range strings.Split(word, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	conn, err := grpc.NewClient("unix:"+ts.MkAbs(args[0]), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, r)
	var said bytes.Buffer
	if err != nil {
		fmt.Fprintln(&said, err)
	}
	for _, s := range a.GetStatuses() {
		fmt.Fprintf(&said, "%v %d/%d\n", s.Code, s.LimitRemaining, s.CurrentLimit.GetRequestsPerUnit())
	}
	for _, h := range a.GetResponseHeadersToAdd() {
		fmt.Fprintf(&said, "%s: %s\n", h.Key, h.Value)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), said.Bytes(), 0o666))
}

// hangup sends HUP to weir serve.
func hangup(ts *testscript.TestScript, neg bool, args []string) {
	b := ts.Value(background{}).(*background)
	if neg || len(args) != 0 || b.Server == nil {
		ts.Fatalf("usage, after serve: hangup")
	}
	ts.Check(b.Process.Signal(syscall.SIGHUP))
}

// eventually URL REGEXP gets a page until it matches.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: eventually URL REGEXP")
	}
	want := regexp.MustCompile(args[1])
	body := []byte{}
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		res, err := http.Get(args[0])
		ts.Check(err)
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
		ts.Check(err)
		if want.Match(body) {
			return
		}
	}
	ts.Fatalf("%s never matched %s; the last was\n%s", args[0], args[1], body)
}
