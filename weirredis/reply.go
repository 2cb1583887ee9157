package weirredis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirlimit/weir/engine"
)

// The script replies to each request with one of these first bytes. lua/decide.lua has the
// layouts.
const (
	replyDecided = iota
	replyReplayed
	replyOutside // nothing is decided, because another window of a Period is needed
	replyError
)

const (
	decidedBytes = 1 + 1 + 7 + 8 + 7 + 8 + 7 + 7
	stateBytes   = 5 * 8
	outsideBytes = 1 + 7
	errorBytes   = 1 + 2 + 2
)

// reply is the script's answer to one request: durations and instants are microseconds.
type reply struct {
	bound     int   // the limit that bound, from 1; 0 = granted in full
	granted   int64 // units
	remaining int64 // units
	at        int64 // the instant
	wait      int64 // -1 = never, as on the server
	reset     int64
	validFor  int64 // time for which the denial stays the same if no call writes

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
	case (first == replyDecided || first == replyReplayed && req.operation != "") && len(text) >= decidedBytes:
		r = reply{
			bound:     int(text[1]),
			granted:   int56At(text, 2),
			remaining: int64At(text, 9),
			at:        int56At(text, 17),
			wait:      int64At(text, 24),
			reset:     int56At(text, 32),
			validFor:  int56At(text, 39),
			replayed:  first == replyReplayed,
		}
		rest = text[decidedBytes:]
		size, head := 0, 0
		switch {
		case r.replayed && rest != "":
			head, size = 1, int(rest[0])
			if size > 0 && size <= limitBytes+1 {
				return r, "", badReply{len(text)}
			}
		case req.states:
			size = req.limits() * stateBytes
		}
		if len(rest) < head+size || r.replayed && head == 0 || !r.replayed && r.bound > req.limits() ||
			!isWait(r.wait) || !isSpan(r.reset) || !isSpan(r.validFor) {
			return r, "", badReply{len(text)}
		}
		body := rest[head : head+size]
		if r.replayed {
			r.limit = body
			return r, rest[head+size:], nil
		}
		for i := 0; i < size; i += stateBytes {
			if !areTimes(body[i:]) {
				return r, "", badReply{len(text)}
			}
		}
		r.states = body
		return r, rest[head+size:], nil
	case first == replyOutside && len(text) >= outsideBytes:
		return reply{outside: true, at: int56At(text, 1)}, text[outsideBytes:], nil
	case first == replyError && len(text) >= errorBytes:
		if size := errorBytes + int(text[3])<<8 + int(text[4]); len(text) >= size {
			return reply{key: int(text[1])<<8 + int(text[2])}, text[size:], ReplyError(text[errorBytes:size])
		}
	}
	return r, "", badReply{len(text)}
}

// areTimes reports whether the times of a state are valid. Its first number is units.
func areTimes(state string) bool {
	return isWait(int64At(state, 8)) && isSpan(int64At(state, 16)) &&
		isSpan(int64At(state, 24)) && isSpan(int64At(state, 32))
}

// isWait reports whether micros is a valid wait, or -1 for never.
func isWait(micros int64) bool { return micros == -1 || isSpan(micros) }

// isSpan reports whether micros is a valid span.
func isSpan(micros int64) bool { return micros >= 0 && micros <= engine.MaxInstant }

// badReply is the error of a reply that no script of this package makes.
type badReply struct{ size int }

// Error names the likely cause.
func (e badReply) Error() string {
	return fmt.Sprintf("%d bytes that are not a reply of this version; is there a proxy that changes replies?", e.size)
}

// answer sets the result and the states of a call.
func (r *reply) answer(c *engine.Call) {
	if c.Op == engine.Count {
		c.Result.Granted = r.granted
		return
	}
	c.Result = r.result(c.Rules)
	switch {
	case c.Op == engine.Refund:
		c.Result = engine.Result{Granted: r.granted, At: c.Result.At, Replayed: r.replayed}
	case r.replayed:
		c.Result.Replayed = true
		readBinding(r.limit, &c.Result)
	case c.States != nil:
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
		At:         time.UnixMicro(r.at),
		Cached:     r.cached,
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
	if limits == 1 {
		d.Used = d.Max - d.Remaining
	}
}

// readStates reads the states behind a reply.
func readStates(text string, p *engine.Compiled, states []engine.State) {
	for i := range states {
		s, t := p.Limits[i].Describe(), text[i*stateBytes:]
		s.Remaining = int64At(t, 0)
		s.Used = p.Limits[i].Capacity - s.Remaining
		s.RetryAfter = wait(int64At(t, 8))
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

// wait converts microseconds, or -1 for never, to a duration.
func wait(us int64) time.Duration {
	if us < 0 {
		return engine.Never
	}
	return span(us)
}

// span converts microseconds to a duration.
func span(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
