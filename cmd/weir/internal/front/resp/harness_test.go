package resp

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

// patience bounds every wait of a test; each should take far less.
const patience = 30 * time.Second

// policies are those of most tests, on e, and more.
func policies(t testing.TB, e engine.Engine, more ...weir.Policy) func() *enforce.Version {
	t.Helper()
	var file policy.File
	for _, p := range append([]weir.Policy{
		{Name: "big", Limits: []weir.Limit{{Name: "limit", Max: 1 << 40, Window: time.Minute, Cells: 60, By: []string{"k"}}}},
		{Name: "one", Limits: []weir.Limit{{Name: "limit", Max: 1, Window: 24 * time.Hour}}},
		{Name: "push", Limits: []weir.Limit{{Name: "limit", Max: 10, Window: time.Minute, By: []string{"teacher"}}}},
		{Name: "wide", Limits: []weir.Limit{
			{Name: "tenant", Max: 100, Window: time.Hour, By: []string{"tenant"}},
			{Name: "user", Max: 2, Window: time.Hour, By: []string{"tenant", "user"}}}},
	}, more...) {
		file.Policies = append(file.Policies, &policy.Definition{Name: p.Name, Limits: p.Limits})
	}
	set := enforce.Set{Engine: e}
	must.Do(t, set.Reload(&file, nil))
	return set.Version
}

func newTestServer(t testing.TB, change ...func(*Config)) *Server {
	t.Helper()
	return newTestServerOn(t, weir.NewMemory(), nil, change...)
}

// newTestServerOn serves the policies of most tests, and more, on e.
func newTestServerOn(t testing.TB, e engine.Engine, more []weir.Policy, change ...func(*Config)) *Server {
	t.Helper()
	c := Config{Policies: policies(t, e, more...), Capacity: calls.NewCapacity(1000), Log: slog.New(slog.DiscardHandler),
		Errors: &observe.Log{To: slog.New(slog.DiscardHandler), Max: 1, Period: time.Second}}
	for _, f := range change {
		f(&c)
	}
	return New(c)
}

// secret returns a secret of one word.
func secret(t testing.TB, word string) *listen.Secret {
	t.Helper()
	got, err := listen.SecretText(word)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// say sends text to a new session and returns the answers.
func say(t testing.TB, s *Server, text string) string {
	t.Helper()
	c := session{server: s, id: 1, protocol: 2}
	if used, err := c.answer(text); err != nil || used != len(text) {
		t.Errorf("%q: %d bytes used, %v", text, used, err)
	}
	return string(c.out)
}

// listening serves on loopback until the test ends.
func listening(t testing.TB, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := serveOn(t, s, l)
	t.Cleanup(func() {
		stop(t, s)
		ended.Wait()
	})
	return l.Addr().String()
}

// serveOn serves until the server stops; ended waits for that.
func serveOn(t testing.TB, s *Server, l net.Listener) (ended *sync.WaitGroup) {
	ended = new(sync.WaitGroup)
	ended.Go(func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	})
	return ended
}

// stop has a server end by itself.
func stop(t testing.TB, s *Server) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must.Do(t, s.Shutdown(ctx))
}

// dial connects. Each operation has the timeout patience.
func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// wantAnswer reads the bytes of an answer and compares them with want.
func wantAnswer(t testing.TB, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		m, err := c.Read(got[n:])
		if n += m; err != nil {
			t.Fatalf("answer %q and %v, want %q", got[:n], err, want)
		}
	}
	if string(got) != want {
		t.Errorf("answer %q, want %q", got, want)
	}
}

// array is a command as clients send it.
func array(args ...string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}
