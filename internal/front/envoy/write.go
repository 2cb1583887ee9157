package envoy

import (
	"encoding/binary"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// Tags of the encoded fields of an answer.
const (
	answerCode      = byte(1<<3 | varint)
	answerStatuses  = byte(2<<3 | counted)
	statusCode      = byte(1<<3 | varint)
	statusLimit     = byte(2<<3 | counted)
	statusRemaining = byte(3<<3 | varint)
	statusReset     = byte(4<<3 | counted)
	durationSeconds = byte(1<<3 | varint)
	durationNanos   = byte(2<<3 | varint)
)

// shownLimit is a limit as answers show it.
type shownLimit struct {
	*pb.RateLimitResponse_RateLimit
	encoded []byte // the same, behind its length
}

func newShownLimit(l *pb.RateLimitResponse_RateLimit) *shownLimit {
	b, err := proto.Marshal(l)
	if err != nil {
		panic(err) // impossible: numbers, and a name of valid text
	}
	return &shownLimit{l, append(binary.AppendUvarint(nil, uint64(len(b))), b...)}
}

// usual reports whether an answer has only a code and statuses.
func (s *Service) usual(c *call) bool {
	return s.options.Response == nil && s.options.Request == nil && !s.options.Metadata && !c.degraded
}

// appendAnswer appends the encoding of a usual answer.
func (s *Service) appendAnswer(b []byte, c *call) []byte {
	b = append(b, answerCode, byte(s.conclude(c)))
	for i := range c.items {
		b = append(b, answerStatuses, 0)
		at := len(b)
		b = c.items[i].appendStatus(b, c)
		size := len(b) - at
		if size < 0x80 {
			b[at-1] = byte(size)
			continue
		}
		// The name of a rule can be long: its status moves behind a longer size.
		status := append([]byte(nil), b[at:]...)
		b = append(binary.AppendUvarint(b[:at-1], uint64(size)), status...)
	}
	return b
}

// appendStatus appends the encoding of status.
func (it *item) appendStatus(b []byte, c *call) []byte {
	b = append(b, statusCode, byte(it.code()))
	if it.limited() {
		b = append(append(b, statusLimit), it.shown.encoded...)
	}
	if n := it.limitRemaining(); n > 0 {
		b = binary.AppendUvarint(append(b, statusRemaining), uint64(n))
	}
	if !it.limited() {
		return b
	}
	reset := it.untilReset(c)
	seconds, nanos := reset/time.Second, reset%time.Second
	b = append(b, statusReset, 0)
	at := len(b)
	if seconds > 0 {
		b = binary.AppendUvarint(append(b, durationSeconds), uint64(seconds))
	}
	if nanos > 0 {
		b = binary.AppendUvarint(append(b, durationNanos), uint64(nanos))
	}
	b[at-1] = byte(len(b) - at)
	return b
}
