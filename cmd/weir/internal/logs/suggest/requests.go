package suggest

import (
	"encoding/binary"
	"fmt"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// requests are all requests of a log with their keys.
type requests struct {
	keys   replay.Keys
	counts []uint32 // requests by the number of a key
	events events
	slots  replay.Slots
	memory int64 // bytes
}

// partShare is the share of the memory for the requests of the keys that are decided
// together. Three quarters of the memory are for all requests and keys; the rest is left to the reader
// of logs and to garbage.
const partShare = 16

// add adds a request. The error is that of too many of them.
func (r *requests) add(name []byte, at, n int64) error {
	number := r.keys.Add(name)
	if number == len(r.counts) {
		r.counts = append(r.counts, 0)
	}
	r.counts[number]++
	r.events.add(event{uint32(number), at, n})
	r.slots.Add(at, false)
	if r.events.n%4096 == 0 && r.bytes() > r.memory/4*3 {
		return &replay.LogError{Problem: fmt.Sprintf("%d requests of %d keys are more than fit in %d MiB; select requests with --where, read fewer files, or raise --max-memory",
			r.events.n, r.keys.Len(), r.memory>>20)}
	}
	return nil
}

func (r *requests) bytes() int64 { return r.keys.Bytes() + 4*int64(cap(r.counts)) + r.events.bytes() }

// eachKey calls visit for each key with its requests, in the order of the log. The requests
// are valid until visit returns.
func (r *requests) eachKey(visit func(key uint32, all []request)) {
	most := max(1, r.memory/partShare/16)
	var part []request
	var ends []uint32
	for first := uint32(0); int(first) < r.keys.Len(); {
		behind, n := first, int64(0)
		ends = ends[:0]
		for ; int(behind) < r.keys.Len(); behind++ {
			count := int64(r.counts[behind])
			if n > 0 && n+count > most {
				break
			}
			ends = append(ends, uint32(n)) // becomes the end when the key's requests are in place
			n += count
		}
		if int64(cap(part)) < n {
			part = make([]request, n)
		}
		part = part[:n]
		r.events.each(func(e event) {
			if i := e.key - first; i < behind-first {
				part[ends[i]] = request{e.at, e.n}
				ends[i]++
			}
		})
		from := uint32(0)
		for i, end := range ends {
			visit(first+uint32(i), part[from:end])
			from = end
		}
		first = behind
	}
}

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
