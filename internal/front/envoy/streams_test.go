package envoy

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
)

// piece is a connection that returns its frames in small pieces.
type piece struct {
	net.Conn
	*bytes.Buffer
	size int
}

func (p piece) Read(b []byte) (int, error)  { return p.Buffer.Read(b[:min(p.size, len(b))]) }
func (p piece) Write(b []byte) (int, error) { return len(b), nil }
func (p piece) Close() error                { return nil }

// A connection records its incomplete calls, for any split of the frames, and reports
// when they are overdue.
func TestConnRecordsItsCalls(t *testing.T) {
	for _, size := range []int{1, 2, 8, 9, 10, 1 << 20} {
		var in bytes.Buffer
		in.WriteString(http2.ClientPreface)
		f := http2.NewFramer(&in, nil)
		f.WriteSettings()
		begin := func(stream uint32) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte("x"), EndHeaders: true})
		}
		for _, stream := range []uint32{1, 3, 5, 7, 9} {
			begin(stream)
		}
		f.WriteData(1, false, make([]byte, 100)) // incomplete
		f.WriteData(3, true, make([]byte, 100))  // complete
		f.WriteRSTStream(5, http2.ErrCodeCancel)
		f.WriteData(9, false, make([]byte, 1000)) // rejected by the server, see below
		f.WriteData(11, false, make([]byte, 1000))

		a := newConnSet()
		a.sweeps.Store(100)
		c := newStreamConn(piece{Buffer: &in, size: size}, &acceptedConn{set: a})
		wants := func(when string, held int, now uint32, overdue, answering bool) {
			t.Helper()
			if int(c.load.bytes) != held || int(a.bytes.Load()) != held || c.overdue(now) != overdue || c.answering() != answering {
				t.Errorf("pieces of %d bytes, %s: %d and %d bytes held, overdue %t, answering %t; want %d, %t, %t",
					size, when, c.load.bytes, a.bytes.Load(), c.overdue(now), c.answering(), held, overdue, answering)
			}
		}
		wants("before the preface", 0, 100, false, false)
		wants("long before the preface", 0, 100+lateAge+1, true, false)
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatal(err)
		}
		const header = frameCost + 1
		held := header + frameCost + 100 + header + header + frameCost + 1000
		wants("after the last frame", held, 100+lateAge, false, true)
		wants("later", held, 100+lateAge+1, true, true)

		var out bytes.Buffer
		f = http2.NewFramer(&out, nil)
		f.WriteSettings()
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("x"), EndHeaders: true}) // before a message
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("x"), EndHeaders: true, EndStream: true})
		f.WriteRSTStream(9, http2.ErrCodeNo)
		for out.Len() > 0 {
			c.Write(out.Next(size))
		}
		wants("after an answer", header+frameCost+100+header, 100+lateAge, false, false)
		c.forget()
		wants("after the end", 0, 100+lateAge, false, false)
	}
}

// The connections with the highest load are closed when all together exceed the bounds.
func TestHighestLoadIsClosedFirst(t *testing.T) {
	for _, each := range []struct {
		name string
		load load // a fourth
	}{{"bytes", load{1, maxHeld / 4}}, {"calls", load{maxPartial / 4, 1}}} {
		a := newConnSet()
		var all []*streamConn
		for i := range 4 {
			one := &acceptedConn{Conn: piece{}, set: a}
			c := newStreamConn(piece{}, one)
			one.streams.Store(c)
			a.open[one] = struct{}{}
			for range []int{1, 1, 2, 1}[i] {
				c.load.bytes += each.load.bytes
				c.load.calls += each.load.calls
			}
			c.account(load{})
			all = append(all, c)
		}
		a.shed()
		if len(a.open) != 3 || !all[2].closed || a.over(3) || !a.over(2) {
			t.Errorf("%s: %d connections with %d calls and %d bytes are left; want 3", each.name, len(a.open), a.calls.Load(), a.bytes.Load())
		}
	}
}

// returning is a connection of a client that connects again, with the same load, when it
// is closed.
type returning struct {
	piece
	again func()
}

func (r returning) Close() error {
	r.again()
	return nil
}

// A client with a small load keeps its connection while others return as often as theirs
// are closed.
func TestReturningClientsDoNotDisplaceOthers(t *testing.T) {
	set := newConnSet()
	open := func(under net.Conn, bytes int64) *streamConn {
		one := &acceptedConn{Conn: under, set: set}
		c := newStreamConn(under, one)
		one.streams.Store(c)
		set.open[one] = struct{}{}
		c.load = load{1, bytes}
		c.account(load{})
		return c
	}
	honest := open(piece{}, 1)
	returns := 10
	var attack func()
	attack = func() {
		if returns--; returns >= 0 {
			open(returning{again: attack}, maxHeld/2+1)
		}
	}
	attack()
	attack()
	set.shed()
	if honest.closed || returns >= 0 || set.over(3) {
		t.Errorf("after %d returns: %d bytes, and that of the small load closed: %t; want fewer, and it open", 10-returns, set.bytes.Load(), honest.closed)
	}
}

// caller is an HTTP/2 client in virtual time that sends single frames.
type caller struct {
	net.Conn
	*http2.Framer
	answered map[uint32]bool // streams with a message and status 0
	gone     chan struct{}   // closed, with the connection
}

// newCaller opens a connection. From the end of gone on, answered can be read.
func newCaller(t *testing.T, on *bufconn.Listener) *caller {
	t.Helper()
	conn, err := on.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &caller{Conn: conn, Framer: http2.NewFramer(conn, conn), answered: map[uint32]bool{}, gone: make(chan struct{})}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go func() {
		defer close(c.gone)
		for {
			f, err := c.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
				c.answered[h.StreamID] = slices.Contains(h.Fields, hpack.HeaderField{Name: "grpc-status", Value: "0"})
			}
		}
	}()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c.WriteSettings()
	return c
}

// call begins a call without its message.
func (c *caller) call(stream uint32) error {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: pb.RateLimitService_ShouldRateLimit_FullMethodName}, {Name: ":authority", Value: "x"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}} {
		e.WriteField(f)
	}
	return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
}

// A burst of honest calls is answered: clients send the headers of many calls before the
// first message.
func TestBurstIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.Load(parse(t, hitsConfig), nil); err != nil {
			t.Fatal(err)
		}
		on := inMemory()
		l := listenOn(t, s, on)
		message, err := proto.Marshal(&pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: entryList{{Key: "big"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		var clients []*caller
		for range maxPartial/maxStreams + 2 {
			c := newCaller(t, on)
			for i := range uint32(maxStreams) {
				if err := c.call(2*i + 1); err != nil {
					t.Fatal(err)
				}
			}
			clients = append(clients, c)
		}
		synctest.Wait()
		if n := l.conns.calls.Load(); n <= maxPartial {
			t.Fatalf("%d calls are partial, want more than %d", n, maxPartial)
		}
		time.Sleep(crowdTime - time.Millisecond)
		for _, c := range clients {
			for i := range uint32(maxStreams) {
				if err := c.WriteData(2*i+1, true, data); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		for i, c := range clients {
			c.Close()
			<-c.gone
			if len(c.answered) != maxStreams || slices.Contains(slices.Collect(maps.Values(c.answered)), false) {
				t.Errorf("client %d: answers %v, want %d", i, c.answered, maxStreams)
			}
		}
	})
}

// Calls that stay partial are shed after crowdTime, and a message that stays incomplete
// ends its connection after lateAge.
func TestPartialCallsHaveDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := inMemory()
		listenOn(t, New(Options{Engine: weir.NewMemory()}), on)
		half := newCaller(t, on)
		if half.call(1) != nil || half.WriteData(1, false, []byte{0, 0, 0, 0, 100}) != nil {
			t.Fatal("the connection is closed before the deadline")
		}
		var clients []*caller
		for range maxPartial/maxStreams + 2 {
			c := newCaller(t, on)
			for i := range uint32(maxStreams) {
				if err := c.call(2*i + 1); err != nil {
					t.Fatal(err)
				}
			}
			clients = append(clients, c)
		}
		open := func() (n int) {
			synctest.Wait()
			for _, c := range clients {
				select {
				case <-c.gone:
				default:
					n++
				}
			}
			return n
		}
		time.Sleep(crowdTime - 1)
		if n := open(); n != len(clients) {
			t.Errorf("before crowdTime %d of %d connections are open", n, len(clients))
		}
		time.Sleep(time.Nanosecond)
		if n := open(); n != maxPartial*3/4/maxStreams {
			t.Errorf("after crowdTime %d of %d connections are open, want %d", n, len(clients), maxPartial*3/4/maxStreams)
		}
		time.Sleep(lateAge*time.Second - crowdTime)
		select {
		case <-half.gone:
			t.Error("an incomplete message ends its connection before its deadline")
		default:
		}
		time.Sleep(time.Second) // to the next sweep
		<-half.gone
	})
}
