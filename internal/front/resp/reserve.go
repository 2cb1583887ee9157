package resp

import (
	"context"
	"time"
)

// Reservations settles the grants of Policy.Reserve.
type Reservations interface {
	// Settle corrects a grant to the units really used: the rest is refunded, missing units
	// are recorded.
	Settle(ctx context.Context, id string, actual int64) (Settlement, error)
}

// Reservation is a grant that will be settled.
type Reservation struct {
	ID      string    // settles it once
	Expires time.Time // the last instant to settle it, by the clock of the store
}

// Settlement is the result for a reservation's units.
type Settlement struct{ Reserved, Refunded, Recorded int64 }

// reserve answers with a decision and two more elements: the id of the reservation, "" if
// nothing was granted, and the instant when it expires, or 0. With an idempotency key,
// one more element is whether the answer is a replay.
func reserve(s *Server, out []byte, args []string) []byte {
	a, err := s.readArguments(args, syntax{most: 1, options: optionID | optionTTL})
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

// settle answers WEIR.SETTLE with four elements: the units that were reserved, used,
// refunded and recorded.
func settle(s *Server, out []byte, args []string) []byte {
	actual, err := number(args[1], "the units that were used")
	if err != nil {
		return s.fail(out, err)
	}
	return s.settleAs(out, args[0], actual)
}

// release is settle of 0 units.
func release(s *Server, out []byte, args []string) []byte { return s.settleAs(out, args[0], 0) }

func (s *Server) settleAs(out []byte, id string, actual int64) []byte {
	done, err := s.config.Reservations.Settle(background, id, actual)
	if err != nil {
		return s.fail(out, err)
	}
	out = appendInt(appendInt(appendArray(out, 4), done.Reserved), actual)
	return appendInt(appendInt(out, done.Refunded), done.Recorded)
}
