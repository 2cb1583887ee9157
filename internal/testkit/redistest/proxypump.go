package redistest

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// connect connects a client to the server, and ends with either.
func (p *Proxy) connect(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		reset(client)
		return
	}
	if !p.join(client, server) {
		reset(client)
		reset(server)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(server, client, Requests) })
	both.Go(func() { p.pump(client, server, Replies) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, client)
	p.mu.Unlock()
}

// join adds an open connection, unless the proxy refuses connections meanwhile.
func (p *Proxy) join(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return false
	}
	p.open[client] = server
	return true
}

// pump copies bytes in one direction. On an error it closes both connections.
func (p *Proxy) pump(to, from net.Conn, d Direction) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		for piece := buffer[:n]; len(piece) > 0; {
			pass, cut := p.next(d, len(piece))
			if _, err := to.Write(piece[:pass]); err != nil {
				return
			}
			if cut {
				reset(to)
				reset(from)
				return
			}
			piece = piece[pass:]
		}
	}
}

// next waits until bytes may pass. It returns the number of bytes of n that may, and
// whether the connection is reset after them.
func (p *Proxy) next(d Direction, n int) (pass int, cut bool) {
	begun, luck := time.Now(), rand.Float64()
	for {
		p.mu.Lock()
		f, changed := p.faults, p.changed
		wait := f.delay(luck) - time.Since(begun)
		if !f.silent && wait <= 0 {
			pass, cut = p.faults.take(d, n)
			p.mu.Unlock()
			return pass, cut
		}
		p.mu.Unlock()
		var over <-chan time.Time
		if !f.silent {
			over = time.After(wait)
		}
		select {
		case <-changed:
		case <-over:
		}
	}
}

// delay returns the delay of a piece; luck is 0 … 1.
func (f *faults) delay(luck float64) time.Duration {
	d := f.least + time.Duration(luck*float64(f.spread))
	if f.trickle > 0 {
		d += time.Second / time.Duration(f.trickle)
	}
	return d
}

// take returns the number of bytes of n that pass, and whether the connection is reset
// then.
func (f *faults) take(d Direction, n int) (pass int, cut bool) {
	if f.trickle > 0 {
		n = 1
	}
	left := &f.cut[d]
	if *left < 0 || n <= *left {
		if *left >= 0 {
			*left -= n
		}
		return n, false
	}
	pass, *left = *left, -1
	return pass, true
}

// reset closes a connection with RST instead of FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
