package store

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// news is what a store opened by Later told.
type news struct {
	err      error
	warnings []string
}

// openLater opens a store for the length of the test.
func openLater(t *testing.T, name string) (*Store, <-chan news) {
	t.Helper()
	heard := make(chan news, 100)
	s, err := Later(name, func(err error, warnings []string) { heard <- news{err, warnings} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if s.later != nil {
			<-s.later.ended
		}
	})
	return s, heard
}

// TestLaterIsWaitedFor: a call that comes before the first attempt has ended gets the
// store's answer, however slow the store is to reach.
func TestLaterIsWaitedFor(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	p.Latency(50*time.Millisecond, 60*time.Millisecond)
	s, _ := openLater(t, "redis://"+p.Addr)
	if s.Down() == nil {
		t.Fatal("it was there at once")
	}
	if !decide(t, s) {
		t.Error("want a grant")
	}
}

func TestLaterFindsWhatIsThere(t *testing.T) {
	server := redistest.Start(t)
	s, heard := openLater(t, "redis://"+server.Addr)
	if err := s.Ready(t.Context()); err != nil || s.Down() != nil {
		t.Fatalf("got %v, %v, want a store that is there", err, s.Down())
	}
	if n := <-heard; n.err != nil {
		t.Errorf("told of %v, want success", n.err)
	}
	if !decide(t, s) || decide(t, s) || !s.Shared {
		t.Error("want one grant, shared with others")
	}
	if m, _ := openLater(t, "memory"); m.Ready(t.Context()) != nil || m.Shared || !decide(t, m) {
		t.Error("memory is there at once")
	}
	if _, err := Later("redis:/"+server.Addr, nil); !errors.Is(err, ErrURL) {
		t.Errorf("a bad name: got %v, want ErrURL", err)
	}
}

// TestLaterWaits: while the server is away every call says so at once; when it is
// back it is found.
func TestLaterWaits(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	s, heard := openLater(t, "redis://"+server.Addr)
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
	for _, err := range []error{allow, refund, count, l.Reset(ctx, weir.K())} {
		if !errors.Is(err, weir.ErrUnavailable) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v, want ErrUnavailable because of ErrUnreachable", err)
		}
	}
	if n := <-heard; !errors.Is(n.err, ErrUnreachable) {
		t.Errorf("told of %v, want ErrUnreachable", n.err)
	}
	server.Restart(t)
	for n := range heard { // it may refuse while it starts
		if n.err == nil {
			break
		}
	}
	if d, err := l.Allow(ctx, weir.K()); err != nil || !d.Allowed || s.Down() != nil {
		t.Errorf("after it came back: %+v, %v, down: %v", d, err, s.Down())
	}
}

// TestLaterLooks: a server that is not fit is no store, until somebody repairs it.
func TestLaterLooks(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	s, heard := openLater(t, "redis://"+server.Addr)
	if err := s.Ready(t.Context()); !errors.Is(err, weirredis.ErrServer) {
		t.Fatalf("got %v, want ErrServer", err)
	}
	<-heard
	server.Must(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	if n := <-heard; n.err != nil || !decide(t, s) {
		t.Errorf("repaired: told of %v, want success", n.err)
	}
}

// TestLaterEnds: Close ends the search, and Ready does not wait beyond its context.
func TestLaterEnds(t *testing.T) {
	held := make(chan struct{})
	silent := listen(t, func(c net.Conn) { <-held })
	s, err := Later("redis://"+silent, func(error, []string) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Ready(ctx); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "not answered yet") {
		t.Errorf("got %v, want that it has not answered yet", err)
	}
	if _, err := s.Engine.Count(ctx, nil, weir.Key{}, 0, 1, weir.Now); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("a call whose context has ended: got %v, want ErrUnavailable", err)
	}
	s.Close()
	close(held)
	<-s.later.ended
}
