package rls

import (
	"bytes"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
)

// piece is a connection from which frames are read in small pieces.
type piece struct {
	net.Conn
	*bytes.Buffer
	size int
}

func (p piece) Read(b []byte) (int, error)  { return p.Buffer.Read(b[:min(p.size, len(b))]) }
func (p piece) Write(b []byte) (int, error) { return len(b), nil }
func (p piece) Close() error                { return nil }

// A connection knows which of its calls are incomplete, however the frames are cut, and
// how long that may last.
func TestConnKnowsItsCalls(t *testing.T) {
	for _, size := range []int{1, 2, 8, 9, 10, 1 << 20} {
		var in bytes.Buffer
		in.WriteString(http2.ClientPreface)
		f := http2.NewFramer(&in, nil)
		f.WriteSettings()
		header := func(stream uint32) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte("x"), EndHeaders: true})
		}
		for _, stream := range []uint32{1, 3, 5, 7, 9} {
			header(stream)
		}
		f.WriteData(1, false, make([]byte, 100)) // incomplete
		f.WriteData(3, true, make([]byte, 100))  // complete
		f.WriteRSTStream(5, http2.ErrCodeCancel)
		f.WriteData(9, false, make([]byte, 1000)) // rejected by the server, see below
		f.WriteData(11, false, make([]byte, 1000))

		a := newArrivals()
		a.sweeps.Store(100)
		c := newConn(piece{Buffer: &in, size: size}, &arrival{of: a, began: 100})
		wants := func(when string, held int, now uint32, overdue, answering bool) {
			t.Helper()
			if c.held != held || int(a.held.Load()) != held || c.overdue(now) != overdue || c.answering() != answering {
				t.Errorf("pieces of %d bytes, %s: %d and %d bytes held, overdue %t, answering %t; want %d, %t, %t",
					size, when, c.held, a.held.Load(), c.overdue(now), c.answering(), held, overdue, answering)
			}
		}
		wants("before the preface", 0, 100, false, false)
		wants("long before the preface", 0, 100+lateAge+1, true, false)
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatal(err)
		}
		half := callCost + frameCost
		wants("after the last frame", half+100+half+1000+callCost, 100+lateAge, false, true)
		wants("later", half+100+half+1000+callCost, 100+lateAge+1, true, true)

		var out bytes.Buffer
		f = http2.NewFramer(&out, nil)
		f.WriteSettings()
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("x"), EndHeaders: true}) // before a message
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("x"), EndHeaders: true, EndStream: true})
		f.WriteRSTStream(9, http2.ErrCodeNo)
		for out.Len() > 0 {
			c.Write(out.Next(size))
		}
		wants("after an answer", half+100+callCost, 100+lateAge, false, false)
		c.forget()
		wants("after the end", 0, 100+lateAge, false, false)
	}
}

// Of connections, those with the most are closed once all hold too much.
func TestShed(t *testing.T) {
	a := newArrivals()
	var all []*conn
	for i := range 4 {
		one := &arrival{Conn: piece{}, of: a}
		one.conn.Store(newConn(piece{}, one))
		a.open[one] = struct{}{}
		all = append(all, one.conn.Load())
		all[i].held = []int{maxHeld / 8, maxHeld / 4, maxHeld/2 + 1, maxHeld / 8}[i]
		a.held.Add(int64(all[i].held))
	}
	a.shed()
	if len(a.open) != 3 || !all[2].closed || a.held.Load() != maxHeld/2 {
		t.Errorf("%d connections with %d bytes are left; want 3 with %d", len(a.open), a.held.Load(), maxHeld/2)
	}
}
