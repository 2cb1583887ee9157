package envoy

import (
	"encoding/binary"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// Fields of the answer as they are sent: number and kind.
const (
	answerCode     = 1<<3 | varint
	answerStatuses = 2<<3 | counted
	statusCode     = 1<<3 | varint
	statusLimit    = 2<<3 | counted
	statusLeft     = 3<<3 | varint
	statusReset    = 4<<3 | counted
	spanSeconds    = 1<<3 | varint
	spanNanos      = 2<<3 | varint
)

// shown is a limit as answers show it.
type shown struct {
	*pb.RateLimitResponse_RateLimit
	sent []byte // the same as it is sent, behind its length
}

func show(l *pb.RateLimitResponse_RateLimit) *shown {
	b, err := proto.Marshal(l)
	if err != nil {
		panic(err) // numbers and a name that was read as text
	}
	return &shown{l, append(binary.AppendUvarint(nil, uint64(len(b))), b...)}
}

// usual reports whether an answer holds nothing but a code and statuses.
func (s *Service) usual(w *work) bool {
	return s.options.Response == nil && s.options.Request == nil && !s.options.Metadata && !w.degraded
}

// appendAnswer is answer as it is sent, for a usual one.
func (s *Service) appendAnswer(b []byte, w *work) []byte {
	b = append(b, answerCode, byte(s.conclude(w)))
	for i := range w.items {
		b = append(b, answerStatuses, 0)
		at := len(b)
		b = w.items[i].appendStatus(b, w)
		size := len(b) - at
		if size < 0x80 {
			b[at-1] = byte(size)
			continue
		}
		// A name of a rule can be long: what follows makes room for a longer size.
		status := append([]byte(nil), b[at:]...)
		b = append(binary.AppendUvarint(b[:at-1], uint64(size)), status...)
	}
	return b
}

// appendStatus is status as it is sent.
func (it *item) appendStatus(b []byte, w *work) []byte {
	b = append(b, statusCode, byte(it.code()))
	left := it.left()
	limited := it.kind != free && it.kind != unlimited
	if limited {
		b = append(append(b, statusLimit), it.shown.sent...)
	}
	if left > 0 {
		b = binary.AppendUvarint(append(b, statusLeft), uint64(left))
	}
	if !limited {
		return b
	}
	reset := it.untilReset(w)
	seconds, nanos := reset/time.Second, reset%time.Second
	b = append(b, statusReset, 0)
	at := len(b)
	if seconds > 0 {
		b = binary.AppendUvarint(append(b, spanSeconds), uint64(seconds))
	}
	if nanos > 0 {
		b = binary.AppendUvarint(append(b, spanNanos), uint64(nanos))
	}
	b[at-1] = byte(len(b) - at)
	return b
}
