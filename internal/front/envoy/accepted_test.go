package envoy

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/listen"
)

// ending is a drained listener: it accepts no new connection and returns the waiting
// ones.
type ending struct {
	net.Listener
	rest chan net.Conn
}

func (e *ending) Accept() (net.Conn, error) {
	if c, ok := <-e.rest; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (e *ending) Close() error { return nil }

// local returns a listener on loopback.
func local(t *testing.T) *listen.Listener {
	t.Helper()
	address, err := listen.Parse("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Open(listen.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Clients that were connected when the listener ended are answered, although GracefulStop
// alone would close connections that gRPC has accepted and not read.
func TestDrainAnswersConnectedClients(t *testing.T) {
	const clients = 200
	on := local(t)
	s := New(Options{Engine: weir.NewMemory()})
	if err := s.Load(parse(t, hitsConfig), nil); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, clients)
	for range clients {
		c := pb.NewRateLimitServiceClient(dial(t, on.Addr().String()))
		go func() {
			_, err := c.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: entryList{{Key: "a"}}}}})
			answers <- err
		}()
	}
	rest := make(chan net.Conn, clients)
	for range clients {
		c, err := on.Accept()
		if err != nil {
			t.Fatal(err)
		}
		rest <- c
	}
	on.Close() // a further connection is refused
	close(rest)
	l := NewListener(s, nil, nil)
	if err := l.Serve(&ending{Listener: on, rest: rest}); err == nil {
		t.Fatal("the listener does not end")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	for range clients {
		// A client with a GOAWAY before its call finds no listener: its call was not read.
		if err := <-answers; err != nil && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "connection refused")) {
			t.Errorf("a client that had connected: %v", err)
		}
	}
}

// A drain does not wait for a silent connection as long as a handshake may take, nor
// longer than its own bound for a connection in the middle of a handshake.
func TestDrainIgnoresSilentConnections(t *testing.T) {
	for text, want := range map[string]struct {
		bound time.Duration
		err   error
		took  time.Duration
	}{
		"":                   {time.Minute, nil, settleTime},
		"PRI * HTTP/2.0\r\n": {settleTime / 2, context.DeadlineExceeded, settleTime / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			on := inMemory()
			l := NewListener(New(Options{Engine: weir.NewMemory()}), nil, nil)
			served := make(chan error, 1)
			go func() { served <- l.Serve(on) }()
			c, err := on.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until gRPC waits for the rest
			ctx, cancel := context.WithTimeout(t.Context(), want.bound)
			defer cancel()
			begun := time.Now()
			err = l.Drain(ctx)
			if took := time.Since(begun); !errors.Is(err, want.err) || took != want.took {
				t.Errorf("a client that sent %q: drain returned %v after %v; want %v after %v", text, err, took, want.err, want.took)
			}
			if left := l.conns.all(); len(left) > 0 {
				t.Errorf("a client that sent %q: %d connections are left", text, len(left))
			}
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
}

// The looks of a drain spare a connection with bytes that gRPC has not read yet, but not
// for ever. They close one whose client has sent nothing.
func TestDrainSparesUnreadCalls(t *testing.T) {
	set := newConnSet()
	set.Listener = local(t)
	var conns []*acceptedConn
	for _, text := range []string{"", "PRI * HTTP/2.0\r\n"} {
		c, err := net.Dial("tcp", set.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		accepted, err := set.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		conns = append(conns, accepted.(*acceptedConn))
	}
	for end := time.Now().Add(patience); !listen.Unread(conns[1].Conn) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	looks := looks{map[*acceptedConn]bool{}, map[*acceptedConn]int{}}
	for i := range maxLate {
		looks.close(set.all())
		if left := set.all(); len(left) != 1 || left[0] != conns[1] {
			t.Fatalf("look %d leaves %d connections, want that with unread bytes", i+1, len(left))
		}
	}
	looks.close(set.all())
	if left := set.all(); len(left) != 0 {
		t.Errorf("look %d leaves %d connections, want none", maxLate+1, len(left))
	}
}
