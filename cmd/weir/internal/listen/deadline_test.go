package listen

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// below is the connection below a Conn. It counts the deadlines that it gets.
type below struct {
	net.Conn
	reads, writes int
}

func (c *below) SetReadDeadline(t time.Time) error {
	c.reads++
	return c.Conn.SetReadDeadline(t)
}

func (c *below) SetWriteDeadline(t time.Time) error {
	c.writes++
	return c.Conn.SetWriteDeadline(t)
}

// pipe returns a Conn over a connection of its own, and the client's end.
func pipe(t *testing.T) (c *Conn, under *below, client net.Conn) {
	server, client := net.Pipe()
	t.Cleanup(func() { server.Close(); client.Close() })
	under = &below{Conn: server}
	return newConn(under, new(Listener)), under, client
}

// wantLate fails the test unless a call ended with its deadline, at most slack later.
func wantLate(t *testing.T, what string, err error, began time.Time, after time.Duration) {
	t.Helper()
	took := time.Since(began)
	if !errors.Is(err, os.ErrDeadlineExceeded) || took < after || took >= after+slack {
		t.Errorf("%s: %v after %v; want the end after %v, or less than %v later",
			what, err, took, after, slack)
	}
}

// TestDeadlinesEndCalls: of reads and writes, before they begin and while they wait.
func TestDeadlinesEndCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := pipe(t)
		began := time.Now()
		must.Do(t, c.SetReadDeadline(began.Add(5*time.Second)))
		_, err := c.Read(make([]byte, 1))
		wantLate(t, "a read of a silent client", err, began, 5*time.Second)

		began = time.Now()
		must.Do(t, c.SetDeadline(began.Add(3*time.Second)))
		n, err := c.Write([]byte("answer"))
		wantLate(t, "a write to a client that does not read", err, began, 3*time.Second)
		if n != 0 {
			t.Errorf("%d bytes are written, want none", n)
		}
		_, err = c.Read(make([]byte, 1))
		wantLate(t, "a read after SetDeadline", err, began, 3*time.Second)

		must.Do(t, c.SetReadDeadline(time.Time{}))
		began = time.Now()
		time.AfterFunc(time.Hour, func() { c.SetReadDeadline(time.Unix(1, 0)) })
		_, err = c.Read(make([]byte, 1))
		wantLate(t, "a read that SetReadDeadline ends", err, began, time.Hour)
	})
}

// outcome is the end of a read.
type outcome struct {
	late bool // ended by its deadline
	at   time.Time
}

// step is a read with two deadlines and a byte of the client.
type step struct {
	before, during time.Time     // deadlines before the read and while it waits
	changes        time.Duration // until the second deadline
	sends          time.Duration // until the byte
}

// play reads from a connection as s describes.
func (s *step) play(c, client net.Conn) <-chan outcome {
	done := make(chan outcome, 1)
	c.SetReadDeadline(s.before)
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- outcome{errors.Is(err, os.ErrDeadlineExceeded), time.Now()}
	}()
	go func() {
		time.Sleep(s.changes)
		c.SetReadDeadline(s.during)
	}()
	go func() {
		time.Sleep(s.sends)
		client.SetWriteDeadline(time.Now().Add(time.Nanosecond)) // without a reader it is lost
		client.Write([]byte("x"))
	}()
	return done
}

// TestRandomDeadlinesEndReads compares a Conn with the connection below it. A read with deadlines
// that change before and during it gets the same byte, or ends at most slack after its deadline.
func TestRandomDeadlinesEndReads(t *testing.T) {
	seed := rand.Uint64()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		span := func(most int) time.Duration { // ends in 0 ms
			return time.Duration(random.IntN(most)) * 10 * time.Millisecond
		}
		instant := func(offset time.Duration) time.Time {
			if random.IntN(8) == 0 {
				return time.Time{}
			}
			return time.Now().Add(span(400) - 200*time.Millisecond + offset)
		}
		plain, client := net.Pipe()
		defer plain.Close()
		conn, _, other := pipe(t)
		for range 3000 {
			s := step{
				before:  instant(1 * time.Millisecond), // no two events coincide
				during:  instant(2 * time.Millisecond),
				changes: span(300) + 3*time.Millisecond,
				sends:   span(600) + 4*time.Millisecond,
			}
			gap := time.Now().Add(s.changes).Sub(s.before)
			if gap > 0 && gap < slack {
				continue // the first deadline may be replaced before it fires
			}
			wants, gets := s.play(plain, client), s.play(conn, other)
			time.Sleep(7 * time.Second) // until all goroutines have ended
			want, got := <-wants, <-gets
			extra := got.at.Sub(want.at)
			isLate := want.late && extra >= 0 && extra < slack
			if got != want && !isLate {
				t.Fatalf("seed %d, %+v: got %+v, want %+v", seed, s, got, want)
			}
		}
	})
}

// requestDeadlines makes the calls of net/http for a request without a body: the connection is
// idle, the header arrives, a read waits for the end of the connection during the handler, and the
// answer is sent.
func requestDeadlines(c net.Conn, b []byte) error {
	c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := c.Read(b); err != nil {
		return err
	}
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	c.SetReadDeadline(time.Time{})
	c.SetReadDeadline(time.Unix(1, 0)) // ends the read during the handler, before it begins
	if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("a read after its deadline: %w", err)
	}
	c.SetReadDeadline(time.Time{})
	if _, err := c.Write(b); err != nil {
		return err
	}
	return c.SetWriteDeadline(time.Time{})
}

// TestBusyConnectionsSetFewDeadlines: the system gets one in each slack, whatever the number of
// requests, and the last one is in force.
func TestBusyConnectionsSetFewDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, under, client := pipe(t)
		go func() {
			b := make([]byte, 1)
			for range 1000 {
				client.Write(b)
				io.ReadFull(client, b)
				time.Sleep(2 * time.Millisecond)
			}
		}()
		for range 1000 {
			must.Do(t, requestDeadlines(c, make([]byte, 1)))
		}
		if most := int(2*time.Second/slack) + 1; under.reads > most || under.writes > most {
			t.Errorf("1,000 requests in 2 s set %d read deadlines and %d write deadlines, want %d at most",
				under.reads, under.writes, most)
		}
		began := time.Now()
		c.SetReadDeadline(began.Add(2 * time.Minute))
		_, err := c.Read(make([]byte, 1))
		wantLate(t, "a read of a silent client", err, began, 2*time.Minute)
	})
}

// withoutCalls is a connection of the system whose reads and writes do nothing.
type withoutCalls struct {
	net.Conn
	past bool // the read deadline
}

func (c *withoutCalls) SetReadDeadline(t time.Time) error {
	c.past = t.Equal(time.Unix(1, 0))
	return c.Conn.SetReadDeadline(t)
}

func (c *withoutCalls) Read(b []byte) (int, error) {
	if c.past {
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

func (c *withoutCalls) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkDeadlines measures the deadlines of a request of net/http: given to the system as they
// come, and by a Conn.
//
//	go test ./internal/listen -run '^$' -bench Deadlines
func BenchmarkDeadlines(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(b, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	must.Do(b, err)
	defer client.Close()
	plain := &withoutCalls{Conn: client}
	for _, c := range []struct {
		name string
		conn net.Conn
	}{
		{"system", plain},
		{"Conn", newConn(plain, new(Listener))},
	} {
		b.Run(c.name, func(b *testing.B) {
			buffer := make([]byte, 1)
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, requestDeadlines(c.conn, buffer))
			}
		})
	}
}
