package listen

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a listener of connections that the test makes.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) {
	if c, ok := <-q; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (q queue) Close() error   { return nil }
func (q queue) Addr() net.Addr { return nil }

// from is one end of a pipe with an address.
type from struct {
	net.Conn
	address *net.TCPAddr
}

func (c from) RemoteAddr() net.Addr { return c.address }

// visits connects from chosen addresses and collects the accepted connections.
type visits struct {
	t        *testing.T
	queue    queue
	accepted chan net.Conn
	clients  []net.Conn
}

func visit(t *testing.T, c Config) (*visits, *Listener) {
	v := &visits{t, make(queue, 100), make(chan net.Conn, 100), nil}
	l := newListener(v.queue, c)
	go func() {
		defer close(v.accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			v.accepted <- c
		}
	}()
	t.Cleanup(func() {
		for _, c := range v.clients {
			c.Close()
		}
	})
	return v, l
}

// connect connects from an address. It returns nil if the connection is not accepted.
func (v *visits) connect(address string) *Conn {
	ours, theirs := net.Pipe()
	v.clients = append(v.clients, theirs)
	v.queue <- from{ours, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))}
	synctest.Wait()
	select {
	case c := <-v.accepted:
		return c.(*Conn)
	default:
		return nil
	}
}

func isOpen(c *Conn) bool {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	_, ok := c.listener.open[c]
	return ok
}

// A full listener closes the oldest connection that is not admitted, once it is minAge
// old, and never an admitted one.
func TestFullListenerMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l := visit(t, Config{Conns: 2, Spare: 1})
		first, second, third := v.connect("192.0.2.1"), v.connect("192.0.2.2"), v.connect("192.0.2.3")
		if !first.Admit() || !third.Admit() || second.Admit() {
			t.Error("of three connections two must be admitted")
		}
		if v.connect("192.0.2.4") != nil {
			t.Fatal("a full listener closes a connection that is younger than minAge")
		}
		time.Sleep(minAge)
		synctest.Wait()
		fourth, _ := (<-v.accepted).(*Conn)
		if !isOpen(first) || isOpen(second) || !isOpen(third) || !isOpen(fourth) {
			t.Error("the connection that was not admitted must be closed, and no other")
		}
		first.Close()
		if !fourth.Admit() || l.Conns() != 2 || l.Refused() != 1 {
			t.Errorf("%d connections, %d refused; want 2 and 1", l.Conns(), l.Refused())
		}
		close(v.queue)
	})
}

// Connections of an address count until they are admitted, and one address gets at most
// half of the slots that are left.
func TestConnectionsOfAnAddressCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := visit(t, Config{Conns: 6, Spare: 2, PerAddress: 3, AdmitWithin: time.Minute})
		for i := range 5 {
			c := v.connect("2001:db8::1")
			if c == nil || !c.Admit() {
				t.Fatalf("connection %d that is admitted at once is refused", i+1)
			}
		}
		one, two := v.connect("2001:db8::2"), v.connect("2001:db8::3") // the same /64
		if one == nil || two == nil || v.connect("2001:db8::4") != nil {
			t.Error("of three slots that are left an address must get two")
		}
		if v.connect("2001:db8:0:1::1") == nil {
			t.Error("another address must get the third")
		}
		close(v.queue)
	})
}

// Connections that are not admitted have a bound of their own, and one address has half of
// it. Beyond that the oldest one, of that address, is closed once it is minAge old. Each
// end is reported.
func TestStrangersDisplaceOnlyStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []string
		v, l := visit(t, Config{Conns: 100, PerAddress: 100, Strangers: 4, Closed: func(client net.Addr, reason string) {
			ends = append(ends, client.String()+" "+reason)
		}})
		connect := func(address string) *Conn {
			t.Helper()
			c := v.connect(address)
			if c == nil {
				time.Sleep(minAge)
				synctest.Wait()
				c, _ = (<-v.accepted).(*Conn)
			}
			return c
		}
		admitted := v.connect("192.0.2.1")
		admitted.Admit()
		a, b, c := connect("192.0.2.1"), connect("192.0.2.2"), connect("192.0.2.2")
		d := connect("192.0.2.2") // closes b, the older one of that address, and not a
		if !isOpen(a) || isOpen(b) || !isOpen(c) || !isOpen(d) {
			t.Error("an address has more than half of the strangers, or took a slot of another one")
		}
		e := connect("192.0.2.3")
		connect("192.0.2.4") // closes a, the oldest of all
		if isOpen(a) || !isOpen(e) || !isOpen(admitted) {
			t.Error("the oldest connection that is not admitted must be closed, and no other")
		}
		connect("192.0.2.5") // closes c
		if isOpen(c) || !isOpen(d) {
			t.Error("the next oldest one must be closed")
		}
		if v.connect("192.0.2.6") != nil {
			t.Error("a connection that is younger than minAge is closed")
		}
		e.Admit()
		synctest.Wait()
		if len(v.accepted) != 1 {
			t.Error("an admission makes no room for the connection that waits")
		}
		want := []string{"192.0.2.2:1 " + reasonNewer, "192.0.2.1:1 " + reasonNewer, "192.0.2.2:1 " + reasonNewer}
		if !slices.Equal(ends, want) || l.Refused() != 3 {
			t.Errorf("%d closings, %q; want %q", l.Refused(), ends, want)
		}
		close(v.queue)
	})
}

// A connection that sends more than its allowance before it is admitted is closed. What
// the server gives back counts no more, and an admitted connection has no such bound.
func TestAllowanceOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l := visit(t, Config{Conns: 100, Allowance: 100})
		read := func(c *Conn, n int) {
			t.Helper()
			client := v.clients[len(v.clients)-1]
			go client.Write(make([]byte, n))
			if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		c := v.connect("192.0.2.1")
		read(c, 60)
		if !c.Spend(40) || !c.Spend(-40) {
			t.Fatal("the allowance ends early")
		}
		read(c, 40)
		if !isOpen(c) {
			t.Fatal("the allowance ends early")
		}
		read(c, 1)
		over := time.Now()
		if _, err := c.Read(make([]byte, 1)); err == nil || time.Since(over) != minAge || isOpen(c) || l.Refused() != 1 {
			t.Errorf("a read beyond the allowance: %v after %v, and %d closings; want an error after %v", err, time.Since(over), l.Refused(), minAge)
		}
		c = v.connect("192.0.2.1")
		read(c, 101)
		time.AfterFunc(minAge/2, func() { c.Admit() })
		read(c, 100)
		if !isOpen(c) {
			t.Error("a connection that is admitted while it waits is closed")
		}
		c = v.connect("192.0.2.1")
		c.Admit()
		read(c, 1000)
		if !isOpen(c) {
			t.Error("an admitted connection is closed for its allowance")
		}
		c.Demote()
		read(c, 100)
		if !c.Spend(0) || c.Spend(1) {
			t.Error("a connection whose admission was withdrawn has another allowance than a new one")
		}
		close(v.queue)
	})
}

// A connection is closed unless it is admitted in time, also after Demote.
func TestUnadmittedConnectionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := visit(t, Config{Conns: 6, AdmitWithin: 10 * time.Second})
		stranger := v.connect("192.0.2.1")
		time.Sleep(5 * time.Second)
		caller, demoted := v.connect("192.0.2.1"), v.connect("192.0.2.1")
		caller.Admit()
		demoted.Admit()
		demoted.Demote()
		time.Sleep(5*time.Second + 1)
		synctest.Wait()
		if isOpen(stranger) || !isOpen(demoted) {
			t.Error("after ten seconds the first must be closed, and no other")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if isOpen(demoted) || !isOpen(caller) {
			t.Error("ten seconds later the demoted one must be closed, and the admitted one not")
		}
		close(v.queue)
	})
}

func TestClientOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1":               "192.0.2.1/32",
		"::ffff:192.0.2.1":        "192.0.2.1/32",
		"64:ff9b::192.0.2.1":      "192.0.2.1/32",
		"2001:db8:1:2:3:4:5:6":    "2001:db8:1:2::/64",
		"fe80::1%eth0":            "fe80::/64",
		"64:ff9b:1::192.0.2.1":    "64:ff9b:1::c000:201/128",
		"2001:db8:1:2:ffff:4:5:6": "2001:db8:1:2::/64",
	} {
		c := from{nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))}
		if got := clientOf(c); got.String() != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}
