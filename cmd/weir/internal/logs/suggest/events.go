package suggest

import "encoding/binary"

// event is one request.
type event struct {
	key uint32
	at  int64 // microseconds since 1970
	n   int64 // units
}

// events are requests in the order of the log, in a few bytes each: the number of the key,
// the time since the one before, and the units if they differ.
type events struct {
	blocks   [][]byte // parts of blockBytes bytes, so that they grow without copies
	weighted bool     // requests have units of their own
	n        int64    // requests
	last     int64    // instant of the newest
	one      []byte
}

const blockBytes = 1 << 18

// bytes returns the memory of all requests.
func (s *events) bytes() int64 { return blockBytes * int64(len(s.blocks)) }

const second = 1_000_000

// add appends a request.
func (s *events) add(e event) {
	b := binary.AppendUvarint(s.one[:0], uint64(e.key))
	d := e.at - s.last
	d = d<<1 ^ d>>63 // zigzag: small numbers, also of a time that runs back
	if d%(2*second) == 0 {
		d = d / second // its last bit is 0: whole seconds forward
	} else {
		d = d<<1 | 1
	}
	b = binary.AppendUvarint(b, uint64(d))
	if s.weighted {
		b = binary.AppendUvarint(b, uint64(e.n))
	}
	last := len(s.blocks) - 1
	if last < 0 || len(s.blocks[last])+len(b) > blockBytes {
		s.blocks = append(s.blocks, make([]byte, 0, blockBytes))
		last++
	}
	s.blocks[last] = append(s.blocks[last], b...)
	s.one, s.last = b, e.at
	s.n++
}

// each calls visit for every request, in order.
func (s *events) each(visit func(e event)) {
	e := event{n: 1}
	for _, b := range s.blocks {
		for len(b) > 0 {
			k, size := binary.Uvarint(b)
			b = b[size:]
			d, size := binary.Uvarint(b)
			b = b[size:]
			if d&1 == 0 {
				d = d * second
			} else {
				d >>= 1
			}
			e.key = uint32(k)
			e.at += int64(d>>1) ^ -int64(d&1)
			if s.weighted {
				n, size := binary.Uvarint(b)
				b, e.n = b[size:], int64(n)
			}
			visit(e)
		}
	}
}
