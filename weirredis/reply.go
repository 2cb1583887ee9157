package weirredis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// Sizes of replies, as the headers of lua/generated describe them.
const (
	longBytes  = 1 + 1 + 7 + 8 + 7 + 8 + 7 + 7
	shortBytes = 1 + 7 + 8 + 8
	stateBytes = 5 * 8 // the state of one limit behind a reply
	headBytes  = 26    // of a history's header, described in lua/history.lua
)

// First bytes of replies.
const (
	replyLong = iota
	replyError
	replyShort    // granted in full, and all units leave within a window
	replyReplayed // the stored answer of an operation

	replyHeader5 = 5 // as replyShort; the reply is the header that was written
	replyHeader6 = 6
)

// reply is a script's answer to one request: durations and instants are microseconds.
type reply struct {
	bound     int   // the limit that bound, from 1; 0 = granted in full
	granted   int64 // units
	remaining int64 // units
	at        int64 // the instant
	wait      int64 // -1 = never
	reset     int64
	validFor  int64 // time for which the denial stays the same if no call writes
}

// cutReply reads the reply to req at the beginning of text and returns the text behind it.
func cutReply(text string, req *request) (r reply, rest string, err error) {
	switch {
	case len(text) >= shortBytes && text[0] == replyShort:
		return reply{
			granted:   req.n,
			at:        int56At(text, 1),
			remaining: int64At(text, 8),
			wait:      int64At(text, 16),
			reset:     req.window,
		}, text[shortBytes:], nil
	case len(text) >= headBytes && (text[0] == replyHeader5 || text[0] == replyHeader6):
		return headerReply(text, req), text[headBytes:], nil
	case len(text) >= longBytes && text[0] == replyLong:
		return reply{
			bound:     int(text[1]),
			granted:   int56At(text, 2),
			remaining: int64At(text, 9),
			at:        int56At(text, 17),
			wait:      int64At(text, 24),
			reset:     int56At(text, 32),
			validFor:  int56At(text, 39),
		}, text[longBytes:], nil
	case len(text) >= 3 && text[0] == replyError:
		size := 3 + int(text[1])<<8 + int(text[2])
		if len(text) >= size {
			return r, text[size:], ReplyError(text[3:size])
		}
	}
	return r, "", badReply{len(text)}
}

// headerReply derives the reply from a new header, which holds the instant, the mark of
// the oldest entry that counts, and the units that count. If one unit more does not fit,
// it waits for the oldest entry (R8).
func headerReply(text string, req *request) reply {
	r := reply{granted: req.n, at: int56At(text, 1), reset: req.window}
	used := int64At(text, 18) & (1<<32 - 1)
	if text[0] == replyHeader5 {
		used >>= 8
	}
	if r.remaining = req.max - used; r.remaining < req.n {
		r.wait = int56At(text, 8) + req.window - r.at
	}
	return r
}

// badReply is the error of a reply that no script of this package gives.
type badReply struct{ size int }

// Error names the likely cause.
func (e badReply) Error() string {
	return fmt.Sprintf("%d bytes that are not a reply of this version; is there a proxy that changes replies?", e.size)
}

// part returns the reply to caller i, from 0, of the callers merged into req: the first
// ones got their units, one after the other, the others none.
func (r *reply) part(req *request, i int64) reply {
	fit := r.granted / req.n
	c := *r
	switch {
	case i >= fit:
		c.granted = 0
	case i == fit-1:
		c.granted, c.bound, c.validFor = req.n, 0, 0
	default: // the next caller still fitted, so the wait was 0
		c.granted, c.bound, c.validFor, c.wait = req.n, 0, 0, 0
		c.remaining += (fit - 1 - i) * req.n
	}
	return c
}

// decision returns the reply as a decision under the plan.
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

// readStates reads the states behind a reply.
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
	return int64At(text, i-1) & (1<<56 - 1) // i > 0: the byte before is masked out
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
