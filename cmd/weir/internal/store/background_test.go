package store

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// news is one call of onChange.
type news struct {
	err      error
	warnings []string
}

// openInBackground opens a store for the length of the test.
func openInBackground(t *testing.T, name string) (*Store, <-chan news) {
	t.Helper()
	changes := make(chan news, 100)
	s, err := OpenInBackground(name, Options{}, func(err error, warnings []string) { changes <- news{err, warnings} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if s.background != nil {
			<-s.background.ended
		}
	})
	return s, changes
}

// TestCallsWaitForTheFirstAttempt: a call before the end of the first attempt gets the
// store's answer, also of a slow store.
func TestCallsWaitForTheFirstAttempt(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	p.Latency(50*time.Millisecond, 60*time.Millisecond)
	s, _ := openInBackground(t, "redis://"+p.Addr)
	if s.Err() == nil {
		t.Fatal("connected at once")
	}
	if !decide(t, s) {
		t.Error("want a grant")
	}
}

func TestBackgroundConnects(t *testing.T) {
	server := redistest.Start(t)
	s, changes := openInBackground(t, "redis://"+server.Addr)
	if err := s.Ready(t.Context()); err != nil || s.Err() != nil {
		t.Fatalf("got %v, %v, want a connected store", err, s.Err())
	}
	if n := <-changes; n.err != nil {
		t.Errorf("got %v, want success", n.err)
	}
	if !decide(t, s) || decide(t, s) || !s.Shared {
		t.Error("want one grant, in a shared store")
	}
	if m, _ := openInBackground(t, "memory"); m.Ready(t.Context()) != nil || m.Shared || !decide(t, m) {
		t.Error("memory must be ready at once")
	}
	if _, err := OpenInBackground("redis:/"+server.Addr, Options{}, nil); !errors.Is(err, ErrURL) {
		t.Errorf("a bad name: got %v, want ErrURL", err)
	}
}

// TestBackgroundReconnects: while the server is away every call fails at once; when it is
// back the store connects.
func TestBackgroundReconnects(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	s, changes := openInBackground(t, "redis://"+server.Addr)
	if err := s.Ready(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), server.Addr) {
		t.Fatalf("got %v, want ErrUnreachable at %s", err, server.Addr)
	}
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 1, Window: time.Minute}}}, weir.WithEngine(s.Engine))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, allow := l.Allow(ctx, weir.K())
	_, refund := l.Refund(ctx, weir.K(), time.Now(), 1)
	_, count := l.Count(ctx, weir.K(), "l", time.Second)
	_, reset := l.Reset(ctx, weir.K())
	for _, err := range []error{allow, refund, count, reset} {
		if !errors.Is(err, weir.ErrUnavailable) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v, want ErrUnavailable because of ErrUnreachable", err)
		}
	}
	if n := <-changes; !errors.Is(n.err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", n.err)
	}
	server.Restart(t)
	for n := range changes { // it may reject connections while it starts
		if n.err == nil {
			break
		}
	}
	if d, err := l.Allow(ctx, weir.K()); err != nil || !d.Allowed || s.Err() != nil {
		t.Errorf("after it came back: %+v, %v, down: %v", d, err, s.Err())
	}
}

// TestBackgroundRetriesUnfitServers: a server that evicts histories is used after its repair.
func TestBackgroundRetriesUnfitServers(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	s, changes := openInBackground(t, "redis://"+server.Addr)
	err := s.Ready(t.Context())
	if !errors.Is(err, weirredis.ErrServer) || !strings.Contains(err.Error(), server.Addr) || !strings.Contains(err.Error(), "noeviction") {
		t.Fatalf("got %v, want ErrServer with the address and the next step", err)
	}
	<-changes
	server.Must(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	if n := <-changes; n.err != nil || !decide(t, s) {
		t.Errorf("repaired: got %v, want success", n.err)
	}
}

// TestBackgroundEnds: Close ends the attempts, and Ready does not outlast its context.
func TestBackgroundEnds(t *testing.T) {
	release := make(chan struct{})
	silent := listentest.Serve(t, func(c net.Conn) { <-release })
	s, err := OpenInBackground("redis://"+silent, Options{}, func(error, []string) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Ready(ctx); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "not answered yet") {
		t.Errorf("got %v, want \"not answered yet\"", err)
	}
	calls := []engine.Call{{Op: engine.Count}}
	if s.Engine.Do(ctx, calls); !errors.Is(calls[0].Err, weir.ErrUnavailable) {
		t.Errorf("a call whose context has ended: got %v, want ErrUnavailable", calls[0].Err)
	}
	s.Close()
	close(release)
	<-s.background.ended
}
