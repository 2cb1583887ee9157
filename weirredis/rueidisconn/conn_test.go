package rueidisconn_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// conn returns a connection, which ends with the test.
func conn(t *testing.T, o rueidis.ClientOption) *rueidisconn.Conn {
	t.Helper()
	c, err := rueidisconn.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestConformance(t *testing.T) {
	redistest.Conformance(t, conn(t, rueidis.ClientOption{InitAddress: []string{redistest.Shared(t).Addr}}), 2_000, 2)
}

func TestConformanceOfEachVersion(t *testing.T) {
	redistest.ShortConformance(t, func(t *testing.T, s *redistest.Server) weirredis.Conn {
		return conn(t, rueidis.ClientOption{InitAddress: []string{s.Addr}})
	})
}

// TestNewErrorNamesPlaceAndNextStep: New fails for what waiting does not mend.
func TestNewErrorNamesPlaceAndNextStep(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "right")
	foreign := listentest.Serve(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	for name, c := range map[string]struct {
		options rueidis.ClientOption
		words   []string
	}{
		"password": {rueidis.ClientOption{InitAddress: []string{s.Addr}, Username: "ann", Password: "s3cret"}, []string{s.Addr, "WRONGPASS", "check user and password"}},
		"no Redis": {rueidis.ClientOption{InitAddress: []string{foreign}}, []string{foreign}},
		"option":   {rueidis.ClientOption{}, []string{"InitAddress"}},
	} {
		_, err := rueidisconn.New(c.options)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want an error without the password", name, err)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: got %v, want %q in it", name, err, word)
			}
		}
	}
}

var onePerHour = weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 1, Window: time.Hour, By: []string{"user"}}}}

// limiterOn returns a limiter on a connection.
func limiterOn(t *testing.T, c weirredis.Conn) *weir.Limiter {
	t.Helper()
	e, err := weirredis.New(c)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := weir.New(onePerHour, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// TestMadeWhileRedisIsDown: a call fails until the server runs, with its address and the next
// step; then it decides. The keys are those of a connection that was made later, also in a
// Cluster.
func TestMadeWhileRedisIsDown(t *testing.T) {
	for name, target := range map[string]string{"server": redistest.Start(t).Addr, "cluster": redistest.StartCluster(t).Nodes[0].Addr} {
		p := redistest.NewProxy(t, target)
		p.Refuse()
		early := limiterOn(t, conn(t, rueidis.ClientOption{InitAddress: []string{p.Addr}}))
		_, err := early.Allow(t.Context(), weir.K("ann"))
		if !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), p.Addr) || !strings.Contains(err.Error(), "does it run") {
			t.Errorf("%s: while it is away: %v, want ErrUnavailable with the address and the next step", name, err)
		}
		p.Accept(t)
		must.Await(t, name+" decides", func() bool {
			d, err := early.Allow(t.Context(), weir.K("ann"))
			return err == nil && d.Allowed
		})
		late := limiterOn(t, conn(t, rueidis.ClientOption{InitAddress: []string{target}}))
		d, err := late.Allow(t.Context(), weir.K("ann"))
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			t.Errorf("%s: a connection made later has other keys", name)
		}
	}
}

// TestMadeWhileRedisIsSilent: a call that waits for a connection returns with its context, and
// Close does not wait for the attempt.
func TestMadeWhileRedisIsSilent(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	p.Silence()
	c := conn(t, rueidis.ClientOption{InitAddress: []string{p.Addr}, Dialer: net.Dialer{Timeout: 100 * time.Millisecond}})
	time.Sleep(200 * time.Millisecond) // until a call may try again
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Eval(ctx, &weirredis.Script{Text: "return ''"}, nil, nil)
	if _, unsent := errors.AsType[weirredis.UnsentError](err); !unsent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want an UnsentError because of DeadlineExceeded", err)
	}
	c.Close()
	if _, err := c.Eval(t.Context(), &weirredis.Script{Text: "return ''"}, nil, nil); !errors.Is(err, rueidis.ErrClosing) {
		t.Errorf("closed: got %v, want ErrClosing", err)
	}
}

// TestOutageOfALibrary plays an outage with a real server, from before the start of the program:
// the log has a line for each change, and the return of Redis is noticed without a call.
func TestOutageOfALibrary(t *testing.T) {
	s := redistest.Start(t)
	s.Stop()
	var log lines
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	value, err := weirredis.New(conn(t, rueidis.ClientOption{InitAddress: []string{s.Addr}}))
	if err != nil {
		t.Fatal(err)
	}
	e := fallback.New(value, fallback.Allow, fallback.Timeout(time.Minute)) // a busy machine is no outage
	t.Cleanup(e.Close)
	l, err := weir.New(onePerHour, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	isDegraded := func() bool {
		d, err := l.Allow(t.Context(), weir.K("ann"))
		if err != nil {
			t.Fatal(err)
		}
		return d.Degraded
	}
	for outage := range 2 {
		must.Await(t, "the store is down", func() bool { return isDegraded() && e.Status().Cause != nil })
		s.Restart(t)
		must.Await(t, "the store is up", func() bool { return e.Status().Cause == nil })
		if isDegraded() {
			t.Error("degraded after the return of Redis")
		}
		if got := log.String(); outage == 0 && (strings.Count(got, "\n") != 2 || !strings.Contains(got, s.Addr)) {
			t.Errorf("got the lines\n%swant one for each change, with the address", got)
		}
		s.Stop()
	}
}

// lines collects a log of several goroutines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestReturnsWithItsContext freezes the server: callers return at their deadlines, and at
// once when they are cancelled.
func TestReturnsWithItsContext(t *testing.T) {
	s := redistest.Start(t)
	c := conn(t, rueidis.ClientOption{InitAddress: []string{s.Addr}, ConnWriteTimeout: time.Hour})
	if clustered, err := c.Clustered(t.Context()); err != nil || clustered || c.String() != s.Addr {
		t.Errorf("got clustered=%v, %v at %s, want a single server at %s", clustered, err, c, s.Addr)
	}
	s.Freeze(t)
	defer s.Thaw(t)
	hour, cancel := context.WithTimeout(context.Background(), time.Hour)
	time.AfterFunc(20*time.Millisecond, cancel)
	returned := make(chan error)
	go func() { // with the first call rueidis would wait for the deadline
		_, err := c.Eval(hour, &weirredis.Script{Text: "return ''"}, nil, nil)
		returned <- err
	}()
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a cancelled call does not return")
	}
	deadline, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Eval(deadline, &weirredis.Script{Text: "return ''"}, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

// TestRejectedCallsHaveNoUnknownOutcome: an error reply proves that nothing was counted; a
// lost reply does not.
func TestRejectedCallsHaveNoUnknownOutcome(t *testing.T) {
	c := conn(t, rueidis.ClientOption{InitAddress: []string{redistest.Shared(t).Addr}})
	_, err := c.Eval(context.Background(), &weirredis.Script{Text: "return redis.error_reply('ERR no')"}, nil, nil)
	var rejected weirredis.ReplyError
	if !errors.As(err, &rejected) || !strings.Contains(string(rejected), "no") {
		t.Errorf("a script that fails: got %v, want a ReplyError", err)
	}
	c.Close()
	_, err = c.Eval(context.Background(), &weirredis.Script{Text: "return ''"}, nil, nil)
	var unsent weirredis.UnsentError
	if !errors.As(err, &unsent) {
		t.Errorf("on a closed client: got %v, want an UnsentError", err)
	}
}

// TestZeroConn: every call of a zero or nil Conn is an error that names the next step.
func TestZeroConn(t *testing.T) {
	for _, c := range []*rueidisconn.Conn{nil, new(rueidisconn.Conn)} {
		_, err := c.Eval(t.Context(), &weirredis.Script{}, nil, nil)
		_, clustered := c.Clustered(t.Context())
		for _, err := range []error{err, clustered} {
			if !errors.Is(err, engine.ErrInput) || !strings.Contains(err.Error(), "rueidisconn.New") {
				t.Errorf("the error is %v", err)
			}
		}
		if c.String() != "" {
			t.Errorf("the address is %q", c.String())
		}
	}
	e, err := weirredis.New(new(rueidisconn.Conn))
	if err != nil {
		t.Fatal(err)
	}
	rules := engine.Compile("p", engine.AllOrNothing, nil, []engine.Limit{{Name: "l", Max: 1, Window: 1e6}})
	calls := []engine.Call{{Rules: rules, N: 1}}
	if e.Do(t.Context(), calls); !errors.Is(calls[0].Err, engine.ErrInput) {
		t.Errorf("the error of an engine on it is %v", calls[0].Err)
	}
}
