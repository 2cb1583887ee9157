package weirredis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// Sizes of replies: lua/one.lua and lua/many.lua say what is in them.
const (
	longBytes  = 1 + 1 + 7 + 8 + 7 + 8 + 7 + 7
	shortBytes = 1 + 7 + 8 + 8
	stateBytes = 5 * 8 // the state of one limit behind a reply
	headBytes  = 26    // of a header, as lua/history.lua lays it out
)

// What a reply begins with.
const (
	isLong = iota
	isProblem
	isShort    // granted in full, and all is reset a window later
	isRepeated // what was answered before

	isShortRun = 5 // the same, and the reply is the header that was written
	isLongRun  = 6
)

// reply is the answer to one decision as scripts give it: durations and instants
// are microseconds.
type reply struct {
	bound     int   // the limit that bound, from 1; 0 = granted in full
	granted   int64 // units
	remaining int64 // units
	at        int64 // the instant
	wait      int64 // -1 = never
	reset     int64
	stays     int64 // how long the denial stays the same, with nobody else acting
}

// cutReply reads the reply at the beginning of text, which answers q, and returns
// what stands behind it.
func cutReply(text string, q *question) (r reply, rest string, err error) {
	switch {
	case len(text) >= shortBytes && text[0] == isShort:
		return reply{
			granted:   q.n,
			at:        int56At(text, 1),
			remaining: int64At(text, 8),
			wait:      int64At(text, 16),
			reset:     q.widest,
		}, text[shortBytes:], nil
	case len(text) >= headBytes && (text[0] == isShortRun || text[0] == isLongRun):
		return headReply(text, q), text[headBytes:], nil
	case len(text) >= longBytes && text[0] == isLong:
		return reply{
			bound:     int(text[1]),
			granted:   int56At(text, 2),
			remaining: int64At(text, 9),
			at:        int56At(text, 17),
			wait:      int64At(text, 24),
			reset:     int56At(text, 32),
			stays:     int56At(text, 39),
		}, text[longBytes:], nil
	case len(text) >= 3 && text[0] == isProblem:
		size := 3 + int(text[1])<<8 + int(text[2])
		if len(text) >= size {
			return r, text[size:], ReplyError(text[3:size])
		}
	}
	return r, "", badReply{len(text)}
}

// headReply is the reply that a new header implies: it holds the instant, the mark
// of the oldest entry that counts, and the units that do. Of one unit more the
// oldest entry decides how long it has to wait (R8).
func headReply(text string, q *question) reply {
	r := reply{granted: q.n, at: int56At(text, 1), reset: q.widest}
	used := int64At(text, 18) & (1<<32 - 1)
	if text[0] == isShortRun {
		used >>= 8
	}
	if r.remaining = q.max - used; r.remaining < q.n {
		r.wait = int56At(text, 8) + q.widest - r.at
	}
	return r
}

// badReply is the error of a reply that no script of ours gives.
type badReply struct{ size int }

// Error says what may be the matter.
func (e badReply) Error() string {
	return fmt.Sprintf("%d bytes that are not a reply of this version; is there a proxy that changes replies?", e.size)
}

// share is the reply to caller i, from 0, of so many who asked q together: the
// first got their units, one after the other, the others none.
func (r *reply) share(q *question, i int64) reply {
	fit := r.granted / q.n
	c := *r
	switch {
	case i >= fit:
		c.granted = 0
	case i == fit-1:
		c.granted, c.bound, c.stays = q.n, 0, 0
	default: // the next one still fitted, so there was nothing to wait for
		c.granted, c.bound, c.stays, c.wait = q.n, 0, 0, 0
		c.remaining += (fit - 1 - i) * q.n
	}
	return c
}

// decision is what the reply means under the plan.
func (r *reply) decision(p *weir.Plan) weir.Decision {
	d := weir.Decision{
		Allowed:    r.bound == 0 || r.granted > 0,
		Granted:    r.granted,
		Remaining:  r.remaining,
		RetryAfter: span(r.wait),
		ResetAfter: span(r.reset),
		At:         time.UnixMicro(r.at),
	}
	if r.bound > 0 {
		d.Limit = p.Limits()[r.bound-1].Name
	}
	return d
}

// readStates fills in the states from the text behind a reply.
func readStates(text string, p *weir.Plan, states []weir.LimitState) {
	limits := p.Policy().Limits
	for i := range states {
		l, t := &limits[i], text[i*stateBytes:]
		remaining := int64At(t, 0)
		states[i] = weir.LimitState{
			Name:             l.Name,
			Max:              l.Max,
			Window:           l.Window,
			MinInterval:      l.MinInterval,
			Used:             min(l.Max-remaining, weir.MaxUnits),
			Remaining:        remaining,
			RetryAfter:       span(int64At(t, 8)),
			NextAfter:        span(int64At(t, 16)),
			MinIntervalAfter: span(int64At(t, 24)),
			ResetAfter:       span(int64At(t, 32)),
		}
	}
}

func int56At(text string, i int) int64 {
	return int64At(text, i-1) & (1<<56 - 1) // i > 0: the byte before is cut off again
}

func int64At(text string, i int) int64 {
	return int64(binary.BigEndian.Uint64([]byte(text[i : i+8])))
}

// span converts microseconds, or -1 for never, to a duration.
func span(us int64) time.Duration {
	if us < 0 {
		return weir.Never
	}
	return time.Duration(us) * time.Microsecond
}
