package resp

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// background is the context of every decision: hanging up must not bypass a limit.
var background = context.Background()

// via is how every call comes in.
var via = &calls.Via{Protocol: observe.RESP}

// appendOutcome appends the answer to a decision, or returns its error.
func (s *Server) appendOutcome(out []byte, a *arguments, o *enforce.Outcome, err error) ([]byte, error) {
	switch {
	case err != nil:
		return out, err
	case a.Reserve:
		return answerReservation(out, a, o), nil
	}
	d := &o.Decision
	out = appendReplay(appendDecision(out, d, optionElements(a)), a, d)
	return appendStart(out, a, d), nil
}

// optionElements returns the number of elements that the options of a command add to a decision.
func optionElements(a *arguments) (n int) {
	if a.ID != "" {
		n++
	}
	if a.waits {
		n += 2
	}
	return n
}

// appendReplay appends whether the answer to a command with an ID is a replay.
func appendReplay(b []byte, a *arguments, d *weir.Decision) []byte {
	if a.ID == "" {
		return b
	}
	return appendBool(b, d.Replayed)
}

// appendStart appends the start of a command with WAIT: the instant, or 0 if the answer is no new
// grant, and as the last element the milliseconds until then.
func appendStart(b []byte, a *arguments, d *weir.Decision) []byte {
	if !a.waits {
		return b
	}
	at := int64(0)
	if start, ok := answer.Start(d); ok {
		at = start.UnixMicro()
	}
	return appendInt(appendInt(b, at), answer.Millis(d.StartAfter))
}

// appendDecision appends a decision as the first nine elements of an array with more elements. New
// elements may be added behind these; these keep their places.
func appendDecision(b []byte, d *weir.Decision, more int) []byte {
	b = appendArray(b, 9+more)
	b = appendBool(b, d.Allowed)
	b = appendInt(b, d.Granted)
	b = appendInt(b, d.Remaining)
	b = appendInt(b, answer.Millis(d.RetryAfter))
	b = appendInt(b, answer.Millis(d.ResetAfter))
	b = appendBulk(b, d.Limit)
	b = appendInt(b, d.At.UnixMicro())
	b = appendBool(b, d.Degraded)
	return appendBool(b, d.Cached)
}

// count answers with the units of the span.
func count(_ *Server, out []byte, a arguments) ([]byte, error) {
	n, _, err := calls.Count(background, a.policy, &a.Request, a.needed)
	return appendInt(out, n), err
}

// refund answers with the number of refunded units.
func refund(_ *Server, out []byte, a arguments) ([]byte, error) {
	a.From = time.UnixMicro(a.needed)
	o, err := a.policy.Decide(background, &a.Request)
	return appendInt(out, o.Granted), err
}

// reset answers with two arrays of names: the limits that were reset, and the others.
func reset(_ *Server, out []byte, a arguments) ([]byte, error) {
	o, err := a.policy.Decide(background, &a.Request)
	out = appendNames(appendArray(out, 2), o.Limits)
	return appendNames(out, a.policy.OtherLimits(o.Limits)), err
}

// block answers with an array of names, the limits that it concerned, and the instant when the
// block ends, or 0 if none runs.
func block(_ *Server, out []byte, a arguments) ([]byte, error) {
	a.For = time.Duration(a.needed) * time.Millisecond
	o, err := a.policy.Decide(background, &a.Request)
	until := int64(0)
	if !o.Applied.Blocked.IsZero() {
		until = o.Applied.Blocked.UnixMicro()
	}
	return appendInt(appendNames(appendArray(out, 2), o.Limits), until), err
}

// appendNames appends an array of names.
func appendNames(b []byte, names []string) []byte {
	b = appendArray(b, len(names))
	for _, name := range names {
		b = appendBulk(b, name)
	}
	return b
}

const (
	maxBatch  = 256 // commands in a batch
	keptBatch = 16  // commands for which a connection keeps memory
)

// enqueue adds a decision to the batch, or the error of its arguments. The decisions of a batch
// are of one pipeline, and are made in one call of the store.
func (c *session) enqueue(cmd *command, args []string) {
	a, err := c.server.readArguments(slices.Clone(args), cmd, nil)
	item := enforce.Item{Err: err}
	if err == nil {
		item.Rule, item.Request = a.policy, a.Request
	}
	c.batch, c.items = append(c.batch, a), append(c.items, item)
	if len(c.batch) == maxBatch {
		c.flush()
	}
}

// flush makes the decisions of the batch, and appends their answers in order.
func (c *session) flush() {
	s := c.server
	batch := c.batch
	items := c.items
	if len(batch) == 0 {
		return
	}
	busy := s.config.Capacity.Do(func() error {
		enforce.DecideAll(background, items)
		for i := range batch {
			c.putAnswer(s.appendOutcome(c.out, &batch[i], &items[i].Outcome, items[i].Err))
		}
		return nil
	})
	if busy != nil {
		for i := range items {
			c.out = s.fail(c.out, cmp.Or(items[i].Err, busy))
		}
	}
	if len(batch) > keptBatch {
		c.batch, c.items = nil, nil
		return
	}
	clear(batch)
	clear(items)
	c.batch, c.items = batch[:0], items[:0]
}

// answerReservation answers with a decision and two more elements: the reservation, "" if nothing
// was granted, and the instant when it expires, or 0. With an idempotency key,
// one more element is whether the answer is a replay. After a grant with a hold, one more is its
// end. With WAIT the last two are the start.
func answerReservation(out []byte, a *arguments, o *enforce.Outcome) []byte {
	d, expires := &o.Decision, int64(0)
	var x reserve.Reservation
	if d.Allowed && a.N > 0 { // one of 0 units is a peek
		x = reserve.Opened(a.policy, a.lines, a.pairs, &a.Request, o)
		expires = x.Expires.UnixMicro()
	}
	n := 2 + optionElements(a)
	if !x.HeldUntil.IsZero() {
		n++
	}
	out = appendInt(appendBulk(appendDecision(out, d, n), x.Name), expires)
	out = appendReplay(out, a, d)
	if !x.HeldUntil.IsZero() {
		out = appendInt(out, x.HeldUntil.UnixMicro())
	}
	return appendStart(out, a, d)
}

// settle answers WEIR.SETTLE and WEIR.RELEASE with four elements: the units that were
// reserved, used, refunded and recorded.
func settle(s *Server, out []byte, a arguments) ([]byte, error) {
	done, err := reserve.Settle(background, s.finder(), via, a.reservation, a.needed)
	out = appendInt(appendInt(appendArray(out, 4), done.Reserved), done.Actual)
	return appendInt(appendInt(out, done.Refunded), done.Recorded), err
}

// extend answers WEIR.EXTEND with a decision and two more elements: the units of the reservation
// and the instant when it expires. With a hold, the last element is its end.
func extend(s *Server, out []byte, a arguments) ([]byte, error) {
	x, err := reserve.Extend(background, s.finder(), via, a.reservation, a.needed, a.before)
	if err != nil {
		return out, err
	}
	more, n := appendInt(appendInt(nil, x.Units), x.Expires.UnixMicro()), 2
	if !x.HeldUntil.IsZero() {
		more, n = appendInt(more, x.HeldUntil.UnixMicro()), n+1
	}
	return append(appendDecision(out, &x.Outcome.Decision, n), more...), nil
}
