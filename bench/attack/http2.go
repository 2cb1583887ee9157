package main

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawHTTP2 is a gRPC client without rules: it writes each frame as the attack gives it.
type rawHTTP2 struct {
	conn   net.Conn
	framer *http2.Framer
	out    bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32

	mu sync.Mutex // protects framer, which also writes settings and window updates
}

// dialHTTP2 connects and reads every frame until the server closes the connection; then
// gone is closed. Denied calls are counted.
func dialHTTP2(ctx context.Context, f *field) (c *rawHTTP2, gone chan struct{}, err error) {
	conn, err := dial(ctx, f.GRPC)
	if err != nil {
		return nil, nil, err
	}
	c = &rawHTTP2{conn: conn, framer: http2.NewFramer(conn, conn), stream: 1}
	c.hpack = hpack.NewEncoder(&c.out)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	conn.SetWriteDeadline(time.Now().Add(time.Hour))
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		conn.Close()
		return nil, nil, err
	}
	if err := c.framer.WriteSettings(); err != nil {
		conn.Close()
		return nil, nil, err
	}
	gone = make(chan struct{})
	go func() {
		defer close(gone)
		defer conn.Close()
		c.read(f)
	}()
	return c, gone, nil
}

// read acknowledges settings and pings, and counts answers UNAUTHENTICATED.
func (c *rawHTTP2) read(f *field) {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			if _, stream := err.(http2.StreamError); stream {
				continue
			}
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				c.mu.Lock()
				c.framer.WriteSettingsAck()
				c.mu.Unlock()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				c.mu.Lock()
				c.framer.WritePing(true, frame.Data)
				c.mu.Unlock()
			}
		case *http2.MetaHeadersFrame:
			for _, field := range frame.Fields {
				if field.Name == "grpc-status" && field.Value == "16" {
					f.unauthorized.Add(1)
				}
			}
		}
	}
}

const (
	rateLimitMethod = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	checkMethod     = "/grpc.health.v1.Health/Check"
	watchMethod     = "/grpc.health.v1.Health/Watch"
)

// open begins a call and returns the number of its stream.
func (c *rawHTTP2) open(method string, more ...hpack.HeaderField) (uint32, error) {
	id := c.stream
	return id, c.headers(method, true, more...)
}

// headers sends the header list of a call, of which further frames follow unless it ends.
func (c *rawHTTP2) headers(method string, end bool, more ...hpack.HeaderField) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Reset()
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "weir"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}, more...) {
		c.hpack.WriteField(field)
	}
	id := c.stream
	c.stream += 2
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.out.Bytes(), EndHeaders: end})
}

// message sends the first bytes of a message with the declared length.
func (c *rawHTTP2) message(stream uint32, length int, sent []byte, end bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	prefix := []byte{0, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}
	return c.framer.WriteData(stream, end, append(prefix, sent...))
}
