package resp

import (
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/enforce"
)

// answerReservation answers with a decision and two more elements: the id of the reservation,
// "" if nothing was granted, and the instant when it expires, or 0. With an idempotency key,
// one more element is whether the answer is a replay. After a grant with a hold, the last
// element is its end.
func (s *Server) answerReservation(out []byte, a arguments, o enforce.Outcome) []byte {
	d, token, expires, heldUntil, more := &o.Decision, "", int64(0), int64(0), 2
	if d.Allowed {
		var err error
		if token, err = s.config.Reservations.Issue(background,
			reserve.Grant{Policy: a.policy, Pairs: a.pairs, Key: a.target.Key, ID: a.id, Outcome: &o, TTL: a.lasts}); err != nil {
			return s.fail(out, err)
		}
		expires = d.At.Add(a.lasts).UnixMicro()
		if hold := o.Limiter.Compiled().HoldTime; hold > 0 {
			heldUntil = d.At.Add(hold).UnixMicro()
			more++
		}
	}
	if a.id != "" {
		more++
	}
	out = appendInt(appendBulk(appendDecision(out, d, more), token), expires)
	if a.id != "" {
		out = appendBool(out, d.Replayed)
	}
	if heldUntil > 0 {
		out = appendInt(out, heldUntil)
	}
	return out
}

// settle answers WEIR.SETTLE with four elements: the units that were reserved, used,
// refunded and recorded. Without a number all units were used.
func settle(s *Server, out []byte, a arguments) ([]byte, error) {
	done, err := s.config.Reservations.Settle(background, observe.RESP, a.token, a.needed)
	out = appendInt(appendInt(appendArray(out, 4), done.Reserved), done.Actual)
	return appendInt(appendInt(out, done.Refunded), done.Recorded), err
}

// release answers WEIR.RELEASE as a settlement of 0 units.
func release(s *Server, out []byte, a arguments) ([]byte, error) {
	a.needed = 0
	return settle(s, out, a)
}

// extend answers WEIR.EXTEND with three elements: the id that the reservation has from now
// on, the instant when it expires, and the end of its hold.
func extend(s *Server, out []byte, a arguments) ([]byte, error) {
	x, err := s.config.Reservations.Extend(background, observe.RESP, a.token)
	out = appendBulk(appendArray(out, 3), x.Token)
	return appendInt(appendInt(out, x.Expires.UnixMicro()), x.HeldUntil.UnixMicro()), err
}
