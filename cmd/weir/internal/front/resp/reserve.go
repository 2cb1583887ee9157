package resp

import (
	"context"
	"time"
)

// Reservations settles the grants of Policy.Reserve.
type Reservations interface {
	// Settle corrects a grant to the units really used: the rest is refunded, missing units
	// are recorded. An actual of -1 stands for all units that were reserved.
	Settle(ctx context.Context, id string, actual int64) (Settlement, error)

	// Extend renews the hold of a reservation. The result has another ID.
	Extend(ctx context.Context, id string) (Reservation, error)
}

// Reservation is a grant that will be settled.
type Reservation struct {
	ID        string    // settles it once
	Expires   time.Time // the last instant to settle it, by the clock of the store
	HeldUntil time.Time // the end of its hold (weir.Concurrency); zero if it has none
}

// Settlement is the result for a reservation's units.
type Settlement struct{ Reserved, Actual, Refunded, Recorded int64 }

// reserve answers with a decision and two more elements: the id of the reservation, "" if
// nothing was granted, and the instant when it expires, or 0. With an idempotency key,
// one more element is whether the answer is a replay. After a grant with a hold, the last
// element is its end.
func reserve(out []byte, a arguments) ([]byte, error) {
	d, r, err := a.policy.Reserve(background, a.key, a.n, a.id, a.ttl)
	if err != nil {
		return nil, err
	}
	more := 2
	if a.id != "" {
		more++
	}
	if !r.HeldUntil.IsZero() {
		more++
	}
	out = appendBulk(appendDecision(out, &d, more), r.ID)
	until := int64(0)
	if r.ID != "" {
		until = r.Expires.UnixMicro()
	}
	if out = appendInt(out, until); a.id != "" {
		out = appendBool(out, d.Replayed)
	}
	if !r.HeldUntil.IsZero() {
		out = appendInt(out, r.HeldUntil.UnixMicro())
	}
	return out, nil
}

// settle answers WEIR.SETTLE with four elements: the units that were reserved, used,
// refunded and recorded. Without a number all units were used.
func settle(s *Server, out []byte, args []string) []byte {
	actual := int64(-1)
	if len(args) == 2 {
		var err error
		if actual, err = number(args[1], "the units that were used", anyUnits); err != nil {
			return s.fail(out, err)
		}
	}
	return s.settle(out, args[0], actual)
}

// release answers WEIR.RELEASE as a settlement of 0 units.
func release(s *Server, out []byte, args []string) []byte { return s.settle(out, args[0], 0) }

func (s *Server) settle(out []byte, id string, actual int64) []byte {
	done, err := s.config.Reservations.Settle(background, id, actual)
	if err != nil {
		return s.fail(out, err)
	}
	out = appendInt(appendInt(appendArray(out, 4), done.Reserved), done.Actual)
	return appendInt(appendInt(out, done.Refunded), done.Recorded)
}

// extend answers WEIR.EXTEND with three elements: the id that the reservation has from now
// on, the instant when it expires, and the end of its hold.
func extend(s *Server, out []byte, args []string) []byte {
	r, err := s.config.Reservations.Extend(background, args[0])
	if err != nil {
		return s.fail(out, err)
	}
	out = appendBulk(appendArray(out, 3), r.ID)
	return appendInt(appendInt(out, r.Expires.UnixMicro()), r.HeldUntil.UnixMicro())
}
