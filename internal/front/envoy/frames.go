package envoy

import "encoding/binary"

// HTTP/2 frames that begin and end streams (RFC 9113, section 6), and their flags.
const (
	frameData    = 0x0
	frameHeaders = 0x1
	frameReset   = 0x3

	flagEndStream = 0x1
)

const (
	frameHeader = 9                                       // bytes before the payload
	preface     = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") // bytes before a client's first frame
)

// frame is the header of one frame.
type frame struct {
	kind, flags byte
	stream      uint32
	size        int // bytes of the payload
}

// frames finds the frames in one direction of a connection, read in pieces. It parses
// only their headers; gRPC checks everything else.
type frames struct {
	rest   int               // bytes of the payload still to come
	header [frameHeader]byte // of a header that is not complete
	have   int               // bytes in header
}

// next returns the first frame header that ends in b, and the bytes after it; ok is
// false if there is none.
func (f *frames) next(b []byte) (one frame, after []byte, ok bool) {
	n := min(f.rest, len(b))
	f.rest -= n
	b = b[n:]
	h := b
	if f.have > 0 || len(b) < frameHeader {
		n = copy(f.header[f.have:], b)
		if f.have += n; f.have < frameHeader {
			return frame{}, nil, false
		}
		f.have, h, after = 0, f.header[:], b[n:]
	} else {
		after = b[frameHeader:]
	}
	f.rest = int(binary.BigEndian.Uint32(h) >> 8)
	return frame{h[3], h[4], binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1), f.rest}, after, true
}

// within reports whether a frame has begun and not ended.
func (f *frames) within() bool { return f.rest > 0 || f.have > 0 }
