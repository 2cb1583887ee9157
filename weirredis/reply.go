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
)

// What a reply begins with.
const (
	isLong = iota
	isProblem
	isShort // granted in full, and all is reset a window later
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

// cutReply reads the reply at the beginning of text, which answers an ask of n
// units under p, and returns what stands behind it.
func cutReply(text string, p *weir.Plan, n int64) (r reply, rest string, err error) {
	switch {
	case len(text) >= shortBytes && text[0] == isShort:
		return reply{
			granted:   n,
			at:        int56At(text, 1),
			remaining: int64At(text, 8),
			wait:      int64At(text, 16),
			reset:     widest(p),
		}, text[shortBytes:], nil
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
	return r, "", errReply(text)
}

// widest is the longest window of the plan.
func widest(p *weir.Plan) int64 {
	w := int64(0)
	for i := range p.Limits() {
		w = max(w, p.Limits()[i].Window)
	}
	return w
}

// errReply is the error of a reply that no script of ours gives.
func errReply(text string) error {
	return fmt.Errorf("weirredis: %d bytes that are not a reply of this version; is there a proxy that changes replies?", len(text))
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
		used := int64At(t, 0)
		states[i] = weir.LimitState{
			Name:       l.Name,
			Max:        l.Max,
			Window:     l.Window,
			Gap:        l.Gap,
			Used:       used,
			Remaining:  l.Max - used,
			RetryAfter: span(int64At(t, 8)),
			NextAfter:  span(int64At(t, 16)),
			GapAfter:   span(int64At(t, 24)),
			ResetAfter: span(int64At(t, 32)),
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
