package memory

import (
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// answer completes the decision from the histories as they are now (R8).
func answer(b *Rules, req *request, records []record, now int64, full bool, d *engine.Result) {
	var wait, reset int64
	remaining := int64(window.Forever)
	for i := range records {
		s := &records[i]
		r := s.rule
		s.wait = s.h.Wait(s.arena, r, &s.state, now, s.limit.units(req.N))
		if window.Longer(s.wait, wait) {
			wait = s.wait
		}
		reset = max(reset, s.h.Reset(r, &s.state, now))
		remaining = min(remaining, s.state.Room(r))
	}
	d.Remaining, d.RetryAfter, d.ResetAfter = remaining, span(wait), span(reset)
	d.At = time.UnixMicro(now)
	if !full {
		d.Limit = binding(b.mode, records, req.N, d.Granted).limit.name
	}
	for i := range req.States {
		s := &records[i]
		req.States[i] = describe(s.limit.described, s.h, s.arena, s.rule, &s.state, now, s.wait)
	}
}

// binding returns the limit that kept an attempt of n units from being granted in full:
// after a partial grant the limit with the least room, after a denial that with the
// longest wait. The first wins a tie.
func binding(mode window.Mode, records []record, n, granted int64) *record {
	var b *record
	for i := range records {
		s := &records[i]
		switch {
		case granted > 0:
			if b == nil || s.room < b.room {
				b = s
			}
		case s.closed || s.room < s.limit.units(n) && (mode != window.Partial || s.room <= 0):
			if b == nil || window.Longer(s.wait, b.wait) {
				b = s
			}
		}
	}
	return b
}

// describe returns the state of a limit. wait is the limit's own wait.
func describe(l *engine.Limit, h *window.History, a *window.Arena, r *window.Rule, s *window.State, now, wait int64) engine.State {
	d := l.Describe()
	d.Used, d.Remaining, d.RetryAfter = s.Used, s.Room(r), span(wait)
	d.NextAfter, d.MinIntervalAfter, d.ResetAfter = span(h.Next(a, r, s, now)), span(s.IntervalWait(r, now)), span(h.Reset(r, s, now))
	return d
}

// span converts microseconds, or window.Never, to a duration.
func span(us int64) time.Duration {
	if us == window.Never {
		return engine.Never
	}
	return time.Duration(us) * time.Microsecond
}
