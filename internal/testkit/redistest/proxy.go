package redistest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between clients and a server and does to their connections what
// networks do. Its faults hold for connections that are open and for those to
// come, until Heal. It is safe for concurrent use.
type Proxy struct {
	Addr string // where clients find it, host:port

	mu       sync.Mutex
	target   string
	listener net.Listener // nil while it refuses
	open     map[net.Conn]net.Conn
	faults   faults
	changed  chan struct{} // closed when faults change
}

// faults are what happens to bytes on their way.
type faults struct {
	least, spread time.Duration // each piece waits at least so long, and up to spread longer
	silent        bool          // bytes stand still
	trickle       int           // bytes a second, 0 = as they come
	cut           [2]int        // so many bytes still pass this way before the connection is reset; -1 = all
}

// Direction is the way that bytes go.
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
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: net.JoinHostPort("127.0.0.1", port), target: target,
		open: map[net.Conn]net.Conn{}, faults: healthy, changed: make(chan struct{})}
	p.Accept(t)
	t.Cleanup(func() {
		p.Heal() // or bytes would stand still forever
		p.Refuse()
	})
	return p
}

// Latency holds every piece back for least to most.
func (p *Proxy) Latency(least, most time.Duration) {
	p.set(func(f *faults) { f.least, f.spread = least, most-least })
}

// Silence lets no byte through, either way. Connections stay open, and bytes are
// delivered once it ends.
func (p *Proxy) Silence() { p.set(func(f *faults) { f.silent = true }) }

// Trickle lets so many bytes a second through each way of each connection.
func (p *Proxy) Trickle(bytesPerSecond int) { p.set(func(f *faults) { f.trickle = bytesPerSecond }) }

// CutAfter lets n more bytes of all connections through that way, then resets the
// connection on which the next would have gone, once. CutAfter(Replies, 0) loses
// the next reply whole.
func (p *Proxy) CutAfter(d Direction, n int) { p.set(func(f *faults) { f.cut[d] = n }) }

// Heal ends all faults but Refuse.
func (p *Proxy) Heal() { p.set(func(f *faults) { *f = healthy }) }

// Target sends connections to come to another server.
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

// Refuse resets every open connection and refuses those to come, until Accept.
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
	var listener net.Listener
	err := poll(func() (err error) {
		listener, err = net.Listen("tcp", p.Addr)
		return err
	})
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
