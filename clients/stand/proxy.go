package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
)

// A fault is one of a network. It replaces the one before.
type fault struct {
	Kind string `json:"kind"` // one of faultKinds

	// Times is how often the fault happens, of a kind that cuts or replaces; 0 = once.
	Times int `json:"times,omitempty"`

	// LeastMS and MostMS bound the delay of each piece, in milliseconds.
	LeastMS int `json:"least_ms,omitempty"`
	MostMS  int `json:"most_ms,omitempty"`

	// Percent is the share of pieces with a fault, of kind mix; 0 … 100.
	Percent int `json:"percent,omitempty"`
}

// faultKinds has each kind and its effect on pieces. A piece is the bytes that arrive together:
// a request, an answer, or several of a pipeline.
var faultKinds = map[string]string{
	"none":        "every piece passes",
	"delay":       "each piece is late",
	"cut_request": "the next pieces of clients are lost, and their connections are reset",
	"cut_answer":  "the next pieces of the server are lost, and their connections are reset",
	"garbage":     "the next pieces of the server are replaced by bytes that are no answer",
	"silence":     "no piece passes; connections stay open",
	"refuse":      "connections are reset, and new ones refused",
	"mirror":      "connections are reset; new ones send each request to the server twice",
	"mix":         "a share of the pieces is late, or cut; a share of the connections is mirrored",
}

// check returns an error for a kind that is none.
func (f *fault) check() error {
	if _, ok := faultKinds[f.Kind]; ok {
		return nil
	}
	var kinds []string
	for kind := range faultKinds {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return fmt.Errorf("no fault %q; the kinds are %s", f.Kind, strings.Join(kinds, ", "))
}

// late returns the delay of a piece.
func (f *fault) late() time.Duration {
	spread := max(f.MostMS-f.LeastMS, 0)
	micros := f.LeastMS*1000 + rand.IntN(spread*1000+1)
	return time.Duration(micros) * time.Microsecond
}

// A proxy passes the bytes of clients to a server, with one fault at a time. It is safe for
// concurrent use.
type proxy struct {
	address string // host:port for clients
	target  string

	mu       sync.Mutex
	fault    fault
	left     int           // further pieces with the fault
	changed  chan struct{} // closed when the fault changes
	listener net.Listener  // nil while connections are refused
	open     map[net.Conn]bool
	ended    bool
}

// newProxy returns a proxy before a server. Its port is held: while it refuses connections, another
// server would answer on a port that is free.
func newProxy(target string) (*proxy, error) {
	address, err := listentest.HoldPort()
	if err != nil {
		return nil, err
	}
	listener, err := listentest.Listen(address)
	if err != nil {
		listentest.ReleasePort(address)
		return nil, err
	}
	p := &proxy{
		address:  address,
		target:   target,
		fault:    fault{Kind: "none"},
		changed:  make(chan struct{}),
		listener: listener,
		open:     map[net.Conn]bool{},
	}
	go p.serve(listener)
	return p, nil
}

// set replaces the fault.
func (p *proxy) set(f fault) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.left = f, max(f.Times, 1)
	close(p.changed)
	p.changed = make(chan struct{})
	if f.Kind == "refuse" || f.Kind == "mirror" {
		p.resetLocked()
	}
	if f.Kind == "refuse" {
		if p.listener != nil {
			p.listener.Close()
			p.listener = nil
		}
		return nil
	}
	if p.listener == nil && !p.ended {
		listener, err := listentest.Listen(p.address)
		if err != nil {
			return err
		}
		p.listener = listener
		go p.serve(listener)
	}
	return nil
}

// close ends the proxy.
func (p *proxy) close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.set(fault{Kind: "refuse"})
	listentest.ReleasePort(p.address)
}

// resetLocked resets all connections. p.mu is held.
func (p *proxy) resetLocked() {
	for c := range p.open {
		reset(c)
	}
	clear(p.open)
}

func (p *proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go p.connect(client)
	}
}

// connect connects a client to the server, and ends with either.
func (p *proxy) connect(client net.Conn) {
	target, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	var twin net.Conn // gets each request too; nil = none
	if p.mirrors() {
		if twin, err = net.Dial("tcp", p.target); err == nil {
			defer twin.Close()
			go io.Copy(io.Discard, twin)
		}
	}
	if !p.join(client, target) {
		reset(client)
		reset(target)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(client, target, twin, "cut_request") })
	both.Go(func() { p.pump(target, client, nil, "cut_answer") })
	both.Wait()
	p.mu.Lock()
	delete(p.open, client)
	delete(p.open, target)
	p.mu.Unlock()
}

// mirrors reports whether a new connection is mirrored.
func (p *proxy) mirrors() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault.Kind == "mirror" || p.fault.Kind == "mix" && rand.IntN(100) < p.fault.Percent
}

// join adds the two ends of a connection, unless connections are refused meanwhile.
func (p *proxy) join(client, target net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return false
	}
	p.open[client] = true
	p.open[target] = true
	return true
}

// pump copies pieces in one direction, to the twin as well. On an error it closes both ends. cut
// is the kind that cuts this direction.
func (p *proxy) pump(from, to, twin net.Conn, cut string) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		piece := buffer[:n]
		switch p.verdict(cut) {
		case "cut":
			reset(to)
			reset(from)
			return
		case "garbage":
			piece = []byte("no answer\r\n\r\n")
		}
		if twin != nil {
			twin.Write(piece)
		}
		if _, err := to.Write(piece); err != nil {
			return
		}
	}
}

// verdict waits until a piece may pass, and returns its fate: "pass", "cut" or "garbage".
func (p *proxy) verdict(cut string) string {
	begun, luck := time.Now(), rand.IntN(100)
	p.mu.Lock()
	late := p.fault.late()
	p.mu.Unlock()
	for {
		p.mu.Lock()
		f, changed := p.fault, p.changed
		delayed := f.Kind == "delay" || f.Kind == "mix" && luck < f.Percent
		wait := late - time.Since(begun)
		if f.Kind != "silence" && (!delayed || wait <= 0) {
			fate := p.fateLocked(cut)
			p.mu.Unlock()
			return fate
		}
		p.mu.Unlock()
		var over <-chan time.Time
		if f.Kind != "silence" {
			over = time.After(wait)
		}
		select {
		case <-changed:
		case <-over:
		}
	}
}

// fateLocked returns the fate of a piece that is no longer delayed. p.mu is held.
func (p *proxy) fateLocked(cut string) string {
	fate := "pass"
	switch {
	case p.fault.Kind == cut:
		fate = "cut"
	case p.fault.Kind == "garbage" && cut == "cut_answer":
		fate = "garbage"
	case p.fault.Kind == "mix" && rand.IntN(100) < p.fault.Percent:
		return "cut"
	}
	if fate == "pass" {
		return fate
	}
	if p.left == 0 {
		return "pass"
	}
	p.left--
	return fate
}

// reset closes a connection with RST instead of FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
