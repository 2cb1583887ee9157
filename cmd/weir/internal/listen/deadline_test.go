package listen

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// countedConn counts the deadlines that it gets.
type countedConn struct {
	net.Conn
	reads, writes int
}

func (c *countedConn) SetReadDeadline(t time.Time) error {
	c.reads++
	return c.Conn.SetReadDeadline(t)
}

func (c *countedConn) SetWriteDeadline(t time.Time) error {
	c.writes++
	return c.Conn.SetWriteDeadline(t)
}

// pipe returns a Conn over a connection of its own, and the client's end.
func pipe(t *testing.T) (c *Conn, below *countedConn, client net.Conn) {
	server, client := net.Pipe()
	t.Cleanup(func() { server.Close(); client.Close() })
	below = &countedConn{Conn: server}
	return newConn(below, new(Listener)), below, client
}

// TestRandomDeadlinesEndReads compares a Conn with the connection below it: a read with
// deadlines that change before and during it ends at the same instant with the same result.
func TestRandomDeadlinesEndReads(t *testing.T) {
	seed := rand.Uint64()
	synctest.Test(t, func(t *testing.T) {
		plain, client := net.Pipe()
		defer plain.Close()
		conn, _, other := pipe(t)
		random := rand.New(rand.NewPCG(seed, 0))
		instant := func(offset time.Duration) time.Time { // none of two kinds are the same
			if random.IntN(8) == 0 {
				return time.Time{}
			}
			return time.Now().Add(time.Duration(random.IntN(400)-20)*10*time.Millisecond + offset)
		}
		for step := range 3000 {
			before, during := instant(1*time.Millisecond), instant(2*time.Millisecond)
			changes, sends := time.Duration(random.IntN(300))*10*time.Millisecond+3*time.Millisecond, time.Duration(random.IntN(600))*10*time.Millisecond+4*time.Millisecond
			type result struct {
				n    int
				late bool
				at   time.Time
			}
			read := func(c, from net.Conn) <-chan result {
				done := make(chan result, 1)
				c.SetReadDeadline(before)
				go func() {
					var b [1]byte
					n, err := c.Read(b[:])
					done <- result{n, errors.Is(err, os.ErrDeadlineExceeded), time.Now()}
				}()
				go func() {
					time.Sleep(changes)
					c.SetReadDeadline(during)
				}()
				go func() {
					time.Sleep(sends)
					from.SetWriteDeadline(time.Now().Add(time.Nanosecond)) // without a reader the byte is lost
					from.Write([]byte("x"))
				}()
				return done
			}
			want, got := read(plain, client), read(conn, other)
			time.Sleep(7 * time.Second) // until all goroutines have ended
			synctest.Wait()
			if w, g := <-want, <-got; g != w {
				t.Fatalf("seed %d, step %d: deadline %v, after %v %v, a byte after %v: got %+v, want %+v", seed, step, before, changes, during, sends, g, w)
			}
		}
	})
}

// TestBusyConnectionsSetFewDeadlines: the seven deadlines of each request of net/http reach
// the system once a second at most, and the last of them is exact.
func TestBusyConnectionsSetFewDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 120 * time.Second
		c, below, client := pipe(t)
		go func() {
			for range 1000 {
				client.Write([]byte("x"))
				client.Read(make([]byte, 1))
				time.Sleep(2 * time.Millisecond)
			}
		}()
		b := make([]byte, 1)
		for range 1000 {
			c.SetReadDeadline(time.Now().Add(idle))
			if _, err := c.Read(b); err != nil {
				t.Fatal(err)
			}
			c.SetReadDeadline(time.Time{})
			c.SetReadDeadline(time.Now().Add(5 * time.Second))
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			c.SetWriteDeadline(time.Now().Add(20 * time.Second))
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			c.SetReadDeadline(time.Unix(1, 0)) // ends a read that has not begun
			if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a read after its deadline: %v", err)
			}
			c.SetReadDeadline(time.Time{})
		}
		if below.reads > 4 || below.writes > 4 {
			t.Errorf("1,000 requests in 2 s set %d read deadlines and %d write deadlines", below.reads, below.writes)
		}
		c.SetReadDeadline(time.Now().Add(idle))
		began := time.Now()
		if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != idle {
			t.Errorf("a silent client's read ended after %v with %v, want the deadline after %v", time.Since(began), err, idle)
		}
	})
}

// TestWriteContinuesAfterAnEarlyDeadline: a write that a deadline ends less than slack too
// early continues behind the bytes that were written.
func TestWriteContinuesAfterAnEarlyDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, below, client := pipe(t)
		go io.ReadFull(client, make([]byte, 3))
		c.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Write([]byte("one")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(slack / 2)
		c.SetWriteDeadline(time.Now().Add(10 * time.Second)) // slack / 2 later than the one in force
		got := make(chan string)
		go func() {
			b := make([]byte, 6)
			io.ReadFull(client, b[:2])
			time.Sleep(10*time.Second - slack/4) // the early deadline passes
			io.ReadFull(client, b[2:])
			got <- string(b)
		}()
		n, err := c.Write([]byte("twenty"))
		if n != 6 || err != nil {
			t.Errorf("written %d bytes, %v", n, err)
		}
		if g := <-got; g != "twenty" {
			t.Errorf("the client read %q", g)
		}
		if below.writes != 2 {
			t.Errorf("%d deadlines were set, want one for each that a write met", below.writes)
		}
		began := time.Now()
		c.SetDeadline(began.Add(3 * time.Second))
		if n, err := c.Write([]byte("late")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("a write without a reader: %d bytes, %v after %v", n, err, time.Since(began))
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("SetDeadline set no read deadline: %d bytes, %v", n, err)
		}
	})
}

// TestDeadlineAfterALaterOne: a deadline that was moved during a read is in force, so an
// earlier one after it is set.
func TestDeadlineAfterALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, client := pipe(t)
		began := time.Now()
		c.SetReadDeadline(began.Add(10 * time.Second))
		go func() {
			time.Sleep(time.Second)
			c.SetReadDeadline(began.Add(time.Minute))
			client.Write([]byte("x"))
		}()
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(began.Add(10*time.Second + slack/2))
		if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 10*time.Second+slack/2 {
			t.Errorf("the read ended after %v with %v", time.Since(began), err)
		}
	})
}
