package weirredis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirlimit/weir/engine"
)

// The script replies to each request with one of these first bytes. lua/requests.lua has the
// layouts.
const (
	replyDecided = iota
	replyReplayed
	replyOutside // nothing is decided, because another window of a Period is needed
	replyError
	replyBegan // decided, and a block began or was set
)

const (
	decidedBytes     = 1 + 1 + 7 + 8 + 7 + 8 + 7 + 7 + 7
	stateBytes       = 8 * 8
	reservationBytes = 7 + 7 + 8 + 8
	outsideBytes     = 1 + 7
	errorBytes       = 1 + 2 + 2
)

// reply is the script's answer to one request: durations and instants are microseconds.
type reply struct {
	bound     int   // the limit that bound, from 1; 0 = granted in full
	granted   int64 // units
	remaining int64 // units
	at        int64 // the instant
	wait      int64 // -1 = never, as on the server
	reset     int64
	blocked   int64 // rest of the longest block that runs
	began     bool  // the request began or set a block

	// validFor is the time for which a denial stays the same if no call writes. Of a grant in full
	// it is the time until its use may begin.
	validFor int64

	reservation string // the packed reservation, if the request has one

	states   string // the packed states, if they were requested
	limit    string // the limit that bound a replayed operation, with its numbers
	cached   bool   // the denial cache repeated the reply
	replayed bool   // this is the stored reply of an operation
	outside  bool   // the script decided nothing at the instant
	key      int    // the key that an error is about, from 1
}

// cutReply reads the reply to req at the beginning of text, and returns the text behind it.
func cutReply(text string, req *request) (r reply, rest string, err error) {
	if text == "" {
		return r, "", badReply{0}
	}
	switch first := text[0]; {
	case first == replyOutside && len(text) >= outsideBytes:
		return reply{outside: true, at: int56At(text, 1)}, text[outsideBytes:], nil
	case first == replyError && len(text) >= errorBytes:
		if size := errorBytes + int(text[3])<<8 + int(text[4]); len(text) >= size {
			r.key = int(text[1])<<8 + int(text[2])
			return r, text[size:], ReplyError(text[errorBytes:size])
		}
	case first != replyReplayed || req.operation != "":
		if rest, ok := r.cut(text, req); ok {
			return r, rest, nil
		}
	}
	return reply{}, "", badReply{len(text)}
}

// cut reads a decision at the beginning of text, and returns the text behind it. It reports
// whether it is the answer to req.
func (r *reply) cut(text string, req *request) (rest string, ok bool) {
	first := text[0]
	switch first {
	case replyDecided, replyReplayed, replyBegan:
	default:
		return "", false
	}
	if len(text) < decidedBytes {
		return "", false
	}
	*r = reply{
		bound:     int(text[1]),
		granted:   int56At(text, 2),
		remaining: int64At(text, 9),
		at:        int56At(text, 17),
		wait:      int64At(text, 24),
		reset:     int56At(text, 32),
		validFor:  int56At(text, 39),
		blocked:   int56At(text, 46),
		replayed:  first == replyReplayed,
		began:     first == replyBegan,
	}
	rest = text[decidedBytes:]
	switch {
	case r.replayed:
		r.limit, rest, ok = cutLimit(rest)
	case r.bound > req.limits():
		return "", false
	default:
		r.states, rest, ok = req.cutStates(rest)
	}
	if !ok || !r.hasTimes() {
		return "", false
	}
	if !req.reserves {
		return rest, true
	}
	if len(rest) < reservationBytes {
		return "", false
	}
	r.reservation = rest[:reservationBytes]
	return rest[reservationBytes:], true
}

// hasTimes reports whether the times of a decision are valid.
func (r *reply) hasTimes() bool {
	return isWait(r.wait) && isSpan(r.reset) && isSpan(r.validFor) && isSpan(r.blocked)
}

// cutLimit cuts the limit that bound a replayed operation from text. It reports whether it could.
func cutLimit(text string) (limit, rest string, ok bool) {
	if text == "" {
		return "", "", false
	}
	size := int(text[0])
	if text = text[1:]; len(text) < size || size > 0 && size <= limitBytes+1 {
		return "", "", false
	}
	return text[:size], text[size:], true
}

// cutStates cuts the states of the limits from text. It reports whether it could.
func (req *request) cutStates(text string) (states, rest string, ok bool) {
	if !req.states {
		return "", text, true
	}
	size := req.limits() * stateBytes
	if len(text) < size {
		return "", "", false
	}
	for i := 0; i < size; i += stateBytes {
		if !areTimes(text[i : i+stateBytes]) {
			return "", "", false
		}
	}
	return text[:size], text[size:], true
}

// areTimes reports whether the times of a state are valid. Its first number is units, and the
// second one may be -1.
func areTimes(state string) bool {
	for i := 16; i < len(state); i += 8 {
		if !isSpan(int64At(state, i)) {
			return false
		}
	}
	return isWait(int64At(state, 8))
}

// isWait reports whether micros is a valid wait, or -1 for never.
func isWait(micros int64) bool { return micros == -1 || isSpan(micros) }

// isSpan reports whether micros is a valid span.
func isSpan(micros int64) bool { return micros >= 0 && micros <= engine.MaxInstant }

// badReply is the error of a reply that no script of this package makes.
type badReply struct{ size int }

// Error names the likely cause.
func (e badReply) Error() string {
	return fmt.Sprintf("%d bytes that are not a reply of this version; "+
		"is there a proxy that changes replies?", e.size)
}

// answer sets the result, the states and the reservation of a call.
func (r *reply) answer(c *engine.Call) {
	if r.reservation != "" && c.Reservation != nil {
		*c.Reservation = readReservation(r.reservation, c.Rules)
	}
	at := time.UnixMicro(r.at)
	switch c.Op {
	case engine.Count:
		c.Result.Granted = r.granted
		return
	case engine.Refund, engine.Settle:
		c.Result = engine.Result{Granted: r.granted, At: at, Replayed: r.replayed}
		return
	case engine.Block:
		c.Result = engine.Result{At: at, Blocked: span(r.blocked)}
		return
	}
	c.Result = r.result(c.Rules)
	switch {
	case r.replayed:
		c.Result.Replayed = true
		readBinding(r.limit, &c.Result)
	case c.States != nil && r.states != "":
		readStates(r.states, c.Rules, c.States)
	}
}

// result returns the reply as a result under the rules.
func (r *reply) result(p *engine.Compiled) engine.Result {
	d := engine.Result{
		Allowed:    r.bound == 0 || r.granted > 0,
		Granted:    r.granted,
		Remaining:  r.remaining,
		RetryAfter: wait(r.wait),
		ResetAfter: span(r.reset),
		Blocked:    span(r.blocked),
		At:         time.UnixMicro(r.at),
		Cached:     r.cached,
	}
	if r.bound == 0 && r.granted > 0 {
		d.StartAfter = span(r.validFor)
	}
	if r.bound > 0 && !r.replayed {
		d.Limit = p.Limits[r.bound-1].Name
	}
	return d
}

// readBinding reads the limit that bound a replayed operation: its name, its packed numbers, and
// the number of limits.
func readBinding(text string, d *engine.Result) {
	if text == "" { // granted in full
		return
	}
	name := len(text) - limitBytes - 1
	packed, limits := text[name:name+limitBytes], text[name+limitBytes]
	d.Limit, d.Kind = text[:name], kindOf(packed)
	d.Max = int56At(packed, 1)
	d.Window = time.Duration(int64At(packed, 6)&(1<<48-1)) * time.Microsecond
	d.Used = -1
	if limits == 1 && d.Blocked == 0 { // a block hides the room
		d.Used = d.Max - d.Remaining
	}
}

// readStates reads the states behind a reply.
func readStates(text string, p *engine.Compiled, states []engine.State) {
	for i := range states {
		s, t := p.Limits[i].Describe(), text[i*stateBytes:(i+1)*stateBytes]
		s.Remaining = int64At(t, 0)
		s.Used = p.Limits[i].Capacity - s.Remaining
		s.RetryAfter = wait(int64At(t, 8))
		s.NextAfter = span(int64At(t, 16))
		s.MinIntervalAfter = span(int64At(t, 24))
		s.ResetAfter = span(int64At(t, 32))
		s.Blocked = span(int64At(t, 40))
		s.Ahead, s.LastAhead = int64At(t, 48), span(int64At(t, 56))
		if s.Blocked > 0 {
			s.Remaining = min(0, s.Remaining) // a block leaves no room (R20)
		}
		states[i] = s
	}
}

// readReservation reads the reservation behind a reply.
func readReservation(text string, p *engine.Compiled) engine.Reservation {
	r := engine.Reservation{Units: int56At(text, 0)}
	if r.Units == 0 {
		return r
	}
	r.ExpiresAt = int56At(text, 7)
	hold, actual := int64At(text, 14), int64At(text, 22)
	if actual >= 0 { // its hold has ended
		r.Settled, r.Actual = true, actual
		return r
	}
	if shortest := shortestHold(p); hold >= 0 && shortest > 0 {
		r.HeldUntil = hold + shortest
	}
	return r
}

// shortestHold returns the shortest hold of the concurrency limits in microseconds, or 0 without
// any.
func shortestHold(p *engine.Compiled) (shortest int64) {
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Kind == engine.KindConcurrency && (shortest == 0 || l.Window < shortest) {
			shortest = l.Window
		}
	}
	return shortest
}

func int56At(text string, i int) int64 {
	high := int64(text[i])<<16 | int64(text[i+1])<<8 | int64(text[i+2])
	return high<<32 | int64(binary.BigEndian.Uint32([]byte(text[i+3:i+7])))
}

func int64At(text string, i int) int64 {
	return int64(binary.BigEndian.Uint64([]byte(text[i : i+8])))
}

// wait converts microseconds, or -1 for never, to a duration.
func wait(us int64) time.Duration {
	if us < 0 {
		return engine.Never
	}
	return span(us)
}

// span converts microseconds to a duration.
func span(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
