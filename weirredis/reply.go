package weirredis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Sizes of replies, as the headers of lua/generated describe them.
const (
	longBytes  = 1 + 1 + 7 + 8 + 7 + 8 + 7 + 7
	shortBytes = 1 + 7 + 8 + 8
	stateBytes = 5 * 8 // the state of one limit behind a reply
	headBytes  = 26    // of a history's header, described in lua/history.lua
	deniedAt   = 1 + 7 // of the header in a denial

	elsewhereBytes = 1 + 7
	refundBytes    = 8 + 7     // of a refund; one byte more if its answer was stored
	bucketBytes    = 1 + 7 + 7 // and, with fractions, 7
)

// First bytes of replies.
const (
	replyLong = iota
	replyError
	replyShort     // granted in full, and all units leave within a window
	replyReplayed  // the stored answer of an operation
	replyElsewhere // nothing is decided: another script, or other windows, are needed

	replyHeader5 = 5  // as replyShort; the reply is the header that was written, with its entries
	replyHeader6 = 6  // the same; in batches without its entries
	replyHeader8 = 8  // of a bucket: granted in full
	replyHeader9 = 9  // the same without fractions
	replyBucket  = 10 // the state of a bucket
	replyDenied  = 11 // in batches: an instant and a header of form 5 with Max units
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

	cached    bool  // repeated by the denial cache
	elsewhere bool  // the script decided nothing at the instant
	debt      int64 // of a bucket: time until it is full
	rest      int64 // and a numerator over Refill.Per
}

// cutReply reads the reply to so many merged callers of req at the beginning of text, and
// returns the text behind it.
func cutReply(text string, req *request, callers int) (r reply, rest string, err error) {
	switch {
	case len(text) >= shortBytes && text[0] == replyShort:
		return reply{
			granted:   req.n,
			at:        int56At(text, 1),
			remaining: int64At(text, 8),
			wait:      int64At(text, 16),
			reset:     req.window,
		}, text[shortBytes:], nil
	case len(text) >= headBytes && text[0] == replyHeader5 && len(text) >= headBytes+int(text[headBytes-1]):
		return headerReply(text, req, callers), text[headBytes+int(text[headBytes-1]):], nil
	case len(text) >= headBytes && text[0] == replyHeader6:
		return headerReply(text, req, callers), text[headBytes:], nil
	case len(text) >= deniedAt+headBytes && text[0] == replyDenied && len(text) >= deniedAt+headBytes+int(text[deniedAt+headBytes-1]):
		return deniedReply(text, req), text[deniedAt+headBytes+int(text[deniedAt+headBytes-1]):], nil
	case len(text) >= longBytes && text[0] == replyLong && int(text[1]) <= req.limits():
		return longReply(text), text[longBytes:], nil
	case req.bucket != nil && len(text) >= bucketBytes && text[0] == replyHeader9:
		return bucketReply(text, req, 1), text[bucketBytes:], nil
	case req.bucket != nil && len(text) >= bucketBytes+7 && text[0] == replyHeader8:
		return bucketReply(text, req, 1), text[bucketBytes+7:], nil
	case req.bucket != nil && len(text) > bucketBytes+7 && text[0] == replyBucket:
		return bucketReply(text, req, int64(text[bucketBytes+7])), text[bucketBytes+8:], nil
	case len(text) >= elsewhereBytes && text[0] == replyElsewhere:
		return reply{elsewhere: true, at: int56At(text, 1)}, text[elsewhereBytes:], nil
	case len(text) >= 3 && text[0] == replyError:
		size := 3 + int(text[1])<<8 + int(text[2])
		if len(text) >= size {
			return r, text[size:], ReplyError(text[3:size])
		}
	}
	return r, "", badReply{len(text)}
}

// longReply reads a long reply, which may be the stored one of an earlier policy.
func longReply(text string) reply {
	return reply{
		bound:     int(text[1]),
		granted:   int56At(text, 2),
		remaining: int64At(text, 9),
		at:        int56At(text, 17),
		wait:      int64At(text, 24),
		reset:     int56At(text, 32),
		validFor:  int56At(text, 39),
	}
}

// headerReply derives the reply from a new header, which holds the instant, the mark of
// the oldest entry that counts, and the units that count. If one unit more does not fit,
// it waits for the oldest entry (R8). All merged callers were granted.
func headerReply(text string, req *request, callers int) reply {
	r := reply{granted: req.n * int64(callers), at: int56At(text, 1), reset: req.window}
	used := int64At(text, 18) & (1<<32 - 1)
	if text[0] == replyHeader5 {
		used >>= 8
	}
	if r.remaining = req.max - used; r.remaining < req.n {
		r.wait = int56At(text, 8) + req.window - r.at
	}
	return r
}

// deniedReply derives the denial of one unit from an instant and the header of a history
// with Max units, all of which count: it waits for the oldest entry (R8).
func deniedReply(text string, req *request) reply {
	at, header := int56At(text, 1), text[deniedAt:]
	last := int56At(header, 1)
	oldest := last
	if header[headBytes-1] > 0 { // bytes of older entries
		oldest = int56At(header, 8)
	}
	wait := oldest + req.window - at
	return reply{bound: 1, at: at, wait: wait, reset: last + req.window - at, validFor: wait}
}

// bucketReply derives the reply from the state of a bucket, in which the attempt fitted
// that many times.
func bucketReply(text string, req *request, fit int64) reply {
	r := reply{granted: fit * req.n, at: int56At(text, 1), debt: int56At(text, 8)}
	if text[0] != replyHeader9 {
		r.rest = int56At(text, 15)
	}
	r.fill(req)
	// The state of an attempt means that the only caller was denied, or that the attempt is
	// merged and a caller may have been.
	if fit == 0 || text[0] == replyBucket && req.writes() {
		r.bound, r.validFor = 1, r.until(req.bucket, max(r.missing(req.bucket)-1, 0))
	}
	return r
}

// before makes the reply that of a caller before later ones took so many units.
func (r *reply) before(req *request, units int64) {
	micros, rest := req.bucket.Refill.Time(units)
	r.debt, r.rest = r.debt-micros, r.rest-rest
	if r.rest < 0 {
		r.debt, r.rest = r.debt-1, r.rest+req.bucket.Refill.Per
	}
	r.fill(req)
}

// fill derives the room and the waits of an attempt from the state of the bucket (R8, R16).
func (r *reply) fill(req *request) {
	l, n := req.bucket, req.n
	missing := r.missing(l)
	r.remaining = l.Capacity - missing
	r.reset = r.until(l, 0)
	r.wait = r.until(l, l.Capacity-n)
}

// missing returns the units that are missing from a bucket.
func (r *reply) missing(l *engine.Limit) int64 {
	if r.debt|r.rest == 0 {
		return 0
	}
	return l.Refill.Units(r.debt, r.rest)
}

// until returns the time until at most that many units are missing from a bucket.
func (r *reply) until(l *engine.Limit, units int64) int64 {
	micros, rest := l.Refill.Time(units)
	if r.rest > rest {
		micros--
	}
	return max(r.debt-micros, 0)
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
	case req.bucket != nil:
		c.granted, c.bound, c.validFor = req.n, 0, 0
		c.before(req, (fit-1-i)*req.n)
	default: // the next caller still fitted, so the wait was 0
		c.granted, c.bound, c.validFor, c.wait = req.n, 0, 0, 0
		c.remaining += (fit - 1 - i) * req.n
	}
	return c
}

// result returns the reply as a result under the rules.
func (r *reply) result(p *engine.Compiled) engine.Result {
	d := engine.Result{
		Allowed:    r.bound == 0 || r.granted > 0,
		Granted:    r.granted,
		Remaining:  r.remaining,
		RetryAfter: span(r.wait),
		ResetAfter: span(r.reset),
		At:         time.UnixMicro(r.at),
		Cached:     r.cached,
	}
	if r.bound > 0 {
		d.Limit = p.Limits[r.bound-1].Name
	}
	return d
}

// readStates reads the states behind a reply.
func readStates(text string, p *engine.Compiled, states []engine.State) {
	for i := range states {
		s, t := p.Limits[i].Describe(), text[i*stateBytes:]
		s.Remaining = int64At(t, 0)
		s.Used = p.Limits[i].Capacity - s.Remaining
		s.RetryAfter = span(int64At(t, 8))
		s.NextAfter = span(int64At(t, 16))
		s.MinIntervalAfter = span(int64At(t, 24))
		s.ResetAfter = span(int64At(t, 32))
		states[i] = s
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
		return engine.Never
	}
	return time.Duration(us) * time.Microsecond
}
