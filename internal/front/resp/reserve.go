package resp

import (
	"context"
	"time"
)

// Reservations settles what Policy.Reserve granted.
type Reservations interface {
	// Settle says how many units were used in truth: what is beyond them is taken
	// back, what is missing is recorded.
	Settle(ctx context.Context, id string, actual int64) (Settlement, error)
}

// Reservation is a grant that is to be settled.
type Reservation struct {
	ID      string    // by which it is settled, once
	Expires time.Time // from then on it cannot be, by the clock of the store
}

// Settlement is what became of a reservation's units.
type Settlement struct{ Reserved, Refunded, Recorded int64 }

// Codes of errors of a settlement.
const (
	CodeSettled = "SETTLED" // it was settled before, by other units; nothing was changed
	CodeExpired = "EXPIRED" // it came too late; the units stay
)

// reserve answers with a decision and two elements more: the id by which to settle, ""
// when nothing was granted, and the instant at which that ends, or 0. If the operation
// has an id, another says whether it was made before.
func reserve(s *Server, out []byte, args []string) []byte {
	a, err := s.ask(args, takes{most: 1, options: takesID | takesTTL})
	if err != nil {
		return s.fail(out, err)
	}
	d, r, err := a.policy.Reserve(background, a.key, a.n, a.id, a.ttl)
	if err != nil {
		return s.fail(out, err)
	}
	more := 2
	if a.id != "" {
		more = 3
	}
	out = appendBulk(appendDecision(out, &d, more), r.ID)
	until := int64(0)
	if r.ID != "" {
		until = r.Expires.UnixMicro()
	}
	if out = appendInt(out, until); a.id != "" {
		out = appendBool(out, d.Replayed)
	}
	return out
}

// settleOne answers WEIR.SETTLE with four elements: the units that were reserved, those
// that were used, and what was taken back or recorded to make it so.
func settleOne(s *Server, out []byte, args []string) []byte {
	actual, err := number(args[1], "the units that were used")
	if err != nil {
		return s.fail(out, err)
	}
	return s.settleAs(out, args[0], actual)
}

// release is settleOne of 0 units.
func release(s *Server, out []byte, args []string) []byte { return s.settleAs(out, args[0], 0) }

func (s *Server) settleAs(out []byte, id string, actual int64) []byte {
	done, err := s.config.Reservations.Settle(background, id, actual)
	if err != nil {
		return s.fail(out, err)
	}
	out = appendInt(appendInt(appendArray(out, 4), done.Reserved), actual)
	return appendInt(appendInt(out, done.Refunded), done.Recorded)
}
