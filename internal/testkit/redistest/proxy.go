package redistest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
)

// Proxy is a TCP proxy between clients and a server with the faults of networks. A fault
// applies to open and to new connections, until Heal. It is safe for concurrent use.
type Proxy struct {
	Addr string // host:port for clients

	mu       sync.Mutex
	target   string
	listener net.Listener // nil while connections are refused
	open     map[net.Conn]net.Conn
	faults   faults
	changed  chan struct{} // closed when faults change
}

// faults are applied to bytes in transit.
type faults struct {
	least, spread time.Duration // each piece waits for least, and up to spread longer
	silent        bool          // no byte passes
	trickle       int           // bytes a second, 0 = unlimited
	cut           [2]int        // bytes that still pass this way before the connection is reset; -1 = all
}

// Direction is the direction of bytes.
type Direction int

// Requests go to the server, Replies come from it.
const (
	Requests Direction = iota
	Replies
)

var healthy = faults{cut: [2]int{-1, -1}}

// NewProxy returns a proxy in front of the server at target (host:port). It ends
// with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	addr, err := listentest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: addr, target: target,
		open: map[net.Conn]net.Conn{}, faults: healthy, changed: make(chan struct{})}
	p.Accept(t)
	t.Cleanup(func() {
		p.Heal() // or bytes would wait forever
		p.Refuse()
		listentest.ReleasePort(addr)
	})
	return p
}

// Latency delays every piece by least to most.
func (p *Proxy) Latency(least, most time.Duration) {
	p.set(func(f *faults) { f.least, f.spread = least, most-least })
}

// Silence stops all bytes in both directions. Connections stay open, and bytes are
// delivered after its end.
func (p *Proxy) Silence() { p.set(func(f *faults) { f.silent = true }) }

// Trickle limits each direction of each connection to so many bytes a second.
func (p *Proxy) Trickle(bytesPerSecond int) { p.set(func(f *faults) { f.trickle = bytesPerSecond }) }

// CutAfter passes n more bytes of all connections in that direction. Then it resets the
// connection of the next byte, once. CutAfter(Replies, 0) loses the whole next reply.
func (p *Proxy) CutAfter(d Direction, n int) { p.set(func(f *faults) { f.cut[d] = n }) }

// Heal ends all faults but Refuse.
func (p *Proxy) Heal() { p.set(func(f *faults) { *f = healthy }) }

// Target sends new connections to another server.
func (p *Proxy) Target(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// CutAll resets every open connection.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, server := range p.open {
		reset(client)
		reset(server)
	}
	clear(p.open)
}

// Refuse resets every open connection and refuses new ones, until Accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.CutAll()
}

// Accept ends Refuse.
func (p *Proxy) Accept(t testing.TB) {
	t.Helper()
	listener, err := listentest.Listen(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	go p.serve(listener)
}

func (p *Proxy) set(change func(f *faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go p.connect(client)
		}
	}
}
