package resp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
)

// TestProtocolErrorsEndTheConnection: earlier commands are answered first.
func TestProtocolErrorsEndTheConnection(t *testing.T) {
	address := listening(t, newTestServer(t))
	for _, bad := range []string{"*1\r\n:1\r\n", "*99\r\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\nWEIR.CHECK one\r\n", strings.Repeat("x", maxInline), "*1\r\n$70000\r\n" + strings.Repeat("x", 70000)} {
		c := dial(t, address)
		send(t, c, "PING\r\n"+bad)
		got, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(got), "+PONG\r\n-ERR Protocol error: ") || strings.Count(string(got), "\n") != 2 {
			t.Errorf("%.40q: %q, %v; want PONG, an error and the end", bad, got, err)
		}
	}
	c := dial(t, address)
	send(t, c, array("WEIR.PEEK", "one"))
	wantAnswer(t, c, "*9\r\n:1\r\n:1\r\n:1\r\n")
}

// TestLongestCommandIsAnswered: the longest allowed command is answered; its buffer is
// freed afterwards.
func TestLongestCommandIsAnswered(t *testing.T) {
	address := listening(t, newTestServer(t))
	c := dial(t, address)
	text := strings.Repeat("y", maxCommand-len("*2\r\n$4\r\nECHO\r\n$65512\r\n\r\n")-0)
	ask := array("ECHO", text)
	if len(ask) != maxCommand {
		t.Fatalf("the command is %d bytes long, want %d", len(ask), maxCommand)
	}
	for range 3 {
		send(t, c, ask+"PING\r\n")
		wantAnswer(t, c, fmt.Sprintf("$%d\r\n%s\r\n+PONG\r\n", len(text), text))
	}
}

// TestSlowClientsAreDisconnected: a client that sends nothing, one that sends a command
// byte by byte, and one that reads no answers are disconnected in time.
func TestSlowClientsAreDisconnected(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(net.Conn)
		want time.Duration
	}{
		"silent": {func(c net.Conn) { c.Read(make([]byte, 1)) }, time.Hour},
		"silent after a command": {func(c net.Conn) {
			time.Sleep(30 * time.Minute)
			c.Write([]byte("PING\r\n"))
			io.ReadAll(c)
		}, 90 * time.Minute},
		"slow": {func(c net.Conn) {
			for range 1000 {
				c.Write([]byte("x"))
				time.Sleep(time.Second)
			}
		}, 10 * time.Second},
		"deaf": {func(c net.Conn) {
			c.Write([]byte("PING\r\n"))
			time.Sleep(time.Hour)
		}, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t)
			ours, theirs := net.Pipe()
			var client sync.WaitGroup
			client.Go(func() { c.do(theirs) })
			begun := time.Now()
			newConn(s, ours).serve()
			if took := time.Since(begun); took != c.want {
				t.Errorf("the %s one is let go after %v, want %v", name, took, c.want)
			}
			theirs.Close()
			client.Wait()
		})
	}
}

// TestBusyPipelinesAreNotDisconnected: a client whose packets always end within a command
// keeps its connection. Each command has its own time.
func TestBusyPipelinesAreNotDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t)
		ours, theirs := net.Pipe()
		var served sync.WaitGroup
		served.Go(newConn(s, ours).serve)
		defer served.Wait()
		defer theirs.Close()
		send(t, theirs, "PI")
		for i := range 60 {
			time.Sleep(time.Second)
			if _, err := theirs.Write([]byte("NG\r\nPI")); err != nil {
				t.Fatalf("after %d s: %v", i+1, err)
			}
			wantAnswer(t, theirs, "+PONG\r\n")
		}
	})
}

// TestDrainAnswersReadCommands: commands that were read are answered, then the connection
// ends. Idle connections do not delay the drain.
func TestDrainAnswersReadCommands(t *testing.T) {
	hold := make(chan struct{})
	reached := make(chan struct{})
	s := newTestServer(t, func(c *Config) {
		policies := c.Policies
		c.Policies = func() *enforce.Version {
			close(reached)
			<-hold
			return policies()
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := serveOn(t, s, l)
	idle, busy := dial(t, l.Addr().String()), dial(t, l.Addr().String())
	send(t, idle, "PING\r\n")
	wantAnswer(t, idle, "+PONG\r\n")
	send(t, busy, array("WEIR.CHECK", "one")+array("ECHO", "second")+"*1\r\n$4\r\nPI")
	<-reached
	ended.Go(func() { stop(t, s) })
	if got, err := io.ReadAll(idle); len(got) > 0 || err != nil {
		t.Errorf("the idle one gets %q, %v; want the end", got, err)
	}
	close(hold)
	if got, err := io.ReadAll(busy); err != nil || !strings.HasPrefix(string(got), "*9\r\n:1\r\n") || !strings.HasSuffix(string(got), "$6\r\nsecond\r\n") {
		t.Errorf("the busy one gets %q, %v; want both answers and the end", got, err)
	}
	ended.Wait()
	// Another program may have the port by now, so that a connection to it tells nothing.
	if err := l.(*net.TCPListener).SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Error("the address still takes connections")
	}
}

// TestDrainCutsOffLateConnections: connections that are not finished in time are cut off,
// and Shutdown reports an error.
func TestDrainCutsOffLateConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t)
		ours, deaf := net.Pipe()
		var ended sync.WaitGroup
		ended.Go(func() { s.Serve(newSingle(ours)) })
		ended.Go(func() {
			for {
				if _, err := deaf.Write([]byte(strings.Repeat("INFO\r\n", 1000))); err != nil {
					return
				}
			}
		})
		synctest.Wait() // until neither side takes any more
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%v, want an error with the number of connections", err)
		}
		ended.Wait()
	})
}

// single is a listener with one connection.
type single struct {
	conns chan net.Conn
	close func()
}

func newSingle(c net.Conn) *single {
	l := &single{conns: make(chan net.Conn, 1)}
	l.conns <- c
	l.close = sync.OnceFunc(func() { close(l.conns) })
	return l
}

func (l *single) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *single) Close() error   { l.close(); return nil }
func (l *single) Addr() net.Addr { return &net.TCPAddr{} }

// counting counts the calls of an engine.
type counting struct {
	engine.Engine
	steps int
}

func (c *counting) Do(ctx context.Context, calls []engine.Call) {
	c.steps++
	c.Engine.Do(ctx, calls)
}

// TestPipelineIsDecidedInOneStep: with a remote store, decisions that follow each other are
// made in one call, also reservations. Errors of some change nothing for the others.
func TestPipelineIsDecidedInOneStep(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s := newTestServerOn(t, e, nil, func(c *Config) { c.Waits = true })
	got := say(t, s, words("WEIR.CHECK big k=1")+words("WEIR.CHECK none k=1")+words("WEIR.RESERVE push teacher=1 3")+
		words("WEIR.PEEK push teacher=1")+words("WEIR.CHECK push teacher=1 9223372036854775807")+words("WEIR.RECORD push teacher=1 2 ID a"))
	want := `^\*9\r\n:1\r\n(?s:.*)-ERR no policy.*\r\n\*11\r\n:1\r\n:3\r\n:7\r\n(?s:.*)\*9\r\n:1\r\n:1\r\n:7\r\n(?s:.*)-ERR n must be.*\r\n\*10\r\n:1\r\n:2\r\n:5\r\n`
	if !regexp.MustCompile(want).MatchString(got) || e.steps != 1 {
		t.Errorf("%d steps, %q; want 1 step, %s", e.steps, got, want)
	}
}

// TestOneKeyKeepsItsOrder: commands on one key run one after the other, and all answers
// have the order of the commands, also around a reset.
func TestOneKeyKeepsItsOrder(t *testing.T) {
	for _, waits := range []bool{false, true} {
		s := newTestServer(t, func(c *Config) { c.Waits = waits })
		var ask, want strings.Builder
		for i := range 700 { // more than one batch
			if i%70 == 69 {
				ask.WriteString("PING\r\n")
				want.WriteString("+PONG\r\n")
			}
			key, n := fmt.Sprint("k=", i%7), 1+i/7
			ask.WriteString(array("WEIR.RECORD", "big", key, fmt.Sprint(n)))
			fmt.Fprintf(&want, "%d ", int64(1<<40)-int64(n*(n+1)/2))
		}
		got := say(t, s, ask.String())
		var remaining strings.Builder
		for _, reply := range strings.SplitAfter(got, "*9\r\n")[1:] {
			remaining.WriteString(strings.Split(reply, "\r\n")[2][1:] + " ")
			if strings.Contains(reply, "+PONG\r\n") {
				remaining.WriteString("+PONG\r\n")
			}
		}
		if remaining.String() != want.String() {
			t.Errorf("waits %v: remaining units:\n%.400s\nwant\n%.400s", waits, remaining.String(), want.String())
		}
	}
}
