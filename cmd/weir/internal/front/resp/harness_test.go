package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// patience bounds every wait of a test; each should take far less.
const patience = 30 * time.Second

// limiters are policies without a file around them.
type limiters map[string]*weir.Limiter

func (l limiters) Policy(name string) (Policy, error) {
	if p := l[name]; p != nil {
		return limiter{p}, nil
	}
	return nil, fmt.Errorf("there is no policy %q; there is push", name)
}

func (l limiters) Names() []string { return slices.Sorted(maps.Keys(l)) }

type limiter struct{ *weir.Limiter }

func (l limiter) Decide(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (weir.Decision, error) {
	return l.Limiter.Decide(ctx, key, weir.Request{Op: op, N: n, ID: id})
}

func (l limiter) Count(ctx context.Context, key weir.Key, limit string, ms int64) (int64, error) {
	if limit == "" {
		limit = l.Compiled().Limits[0].Name
	}
	return l.Limiter.Count(ctx, key, limit, time.Duration(ms)*time.Millisecond)
}

func (l limiter) Refund(ctx context.Context, key weir.Key, at time.Time, n int64, id string) (int64, error) {
	d, err := l.Limiter.Decide(ctx, key, weir.Request{Op: weir.OpRefund, From: at, N: n, ID: id})
	return d.Granted, err
}

func (l limiter) Reserve(ctx context.Context, key weir.Key, n int64, _ string, ttl int64) (d weir.Decision, r Reservation, err error) {
	lasts := time.Duration(ttl) * time.Millisecond
	if ttl == 0 {
		lasts = l.Compiled().LongestWindow
	}
	made, d, err := l.Limiter.Reserve(ctx, key, weir.Request{N: n, TTL: lasts})
	if made != nil {
		r = Reservation{ID: fmt.Sprint("reservation-", mark.Add(1)), Expires: d.At.Add(lasts), HeldUntil: made.HeldUntil()}
		reservations.Store(r.ID, made)
	}
	return d, r, err
}

// reservations are those of all tests, by their ids.
var (
	reservations sync.Map
	mark         atomic.Int64
)

// settler settles them.
type settler struct{}

func (settler) Settle(ctx context.Context, id string, actual int64) (done Settlement, err error) {
	found, ok := reservations.Load(id)
	if !ok {
		return done, inputError("there is no such reservation")
	}
	r := found.(*weir.Reservation)
	if actual < 0 {
		actual, err = r.Units(), r.Done(ctx)
	} else {
		err = r.Commit(ctx, actual)
	}
	if errors.Is(err, weir.ErrSettled) || errors.Is(err, weir.ErrExpired) {
		return done, err
	}
	return Settlement{Reserved: r.Units(), Actual: actual, Refunded: max(0, r.Units()-actual), Recorded: max(0, actual-r.Units())}, err
}

func (settler) Extend(ctx context.Context, id string) (r Reservation, err error) {
	found, ok := reservations.Load(id)
	if !ok {
		return r, inputError("there is no such reservation")
	}
	made := found.(*weir.Reservation)
	if err := made.Extend(ctx); err != nil {
		return r, inputError(err.Error())
	}
	reservations.Store(id+"x", made)
	return Reservation{ID: id + "x", Expires: made.HeldUntil(), HeldUntil: made.HeldUntil()}, nil
}

// policies are those of most tests, on e.
func policies(t testing.TB, e engine.Engine) limiters {
	t.Helper()
	all := limiters{}
	for _, p := range []weir.Policy{
		{Name: "push", Limits: []weir.Limit{{Name: "limit", Max: 10, Window: time.Minute, By: []string{"teacher"}}}},
		{Name: "wide", Limits: []weir.Limit{
			{Name: "tenant", Max: 100, Window: time.Hour, By: []string{"tenant"}},
			{Name: "user", Max: 2, Window: time.Hour, By: []string{"tenant", "user"}}}},
		{Name: "one", Limits: []weir.Limit{{Name: "limit", Max: 1, Window: 24 * time.Hour}}},
		{Name: "big", Limits: []weir.Limit{{Name: "limit", Max: 1 << 40, Window: time.Minute, Cells: 60, By: []string{"k"}}}},
	} {
		l, err := weir.New(p, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		all[p.Name] = l
	}
	return all
}

func newTestServer(t testing.TB, change ...func(*Config)) *Server {
	t.Helper()
	c := Config{Policies: policies(t, weir.NewMemory()), Reservations: settler{}, Version: "1.2.3"}
	for _, f := range change {
		f(&c)
	}
	return New(c)
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
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
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

// logged is a log that tests can read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
