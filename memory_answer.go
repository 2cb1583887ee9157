package weir

import (
	"time"

	"github.com/weirlimit/weir/internal/window"
)

// answer completes the decision from the histories as they are now (R8).
func answer(b *memoryPlan, p *Plan, req *Request, slots []slot, now int64, full bool, d *Decision) {
	var wait, reset int64
	remaining := int64(window.Forever)
	for i := range slots {
		s := &slots[i]
		r := &s.limit.Rule
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
		d.Limit = binding(b.mode, slots, req.N, d.Granted).limit.name
	}
	if req.States != nil {
		describe(p, slots, req.States, now)
	}
}

// binding returns the limit that kept an attempt of n units from being granted in full:
// after a partial grant the limit with the least room, after a denial that with the
// longest wait. The first wins a tie.
func binding(mode window.Mode, slots []slot, n, granted int64) *slot {
	var b *slot
	for i := range slots {
		s := &slots[i]
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

// describe fills in the state of each limit.
func describe(p *Plan, slots []slot, states []LimitState, now int64) {
	for i := range slots {
		s, l := &slots[i], &p.policy.Limits[i]
		states[i] = LimitState{
			Name:             l.Name,
			Max:              l.Max,
			Window:           l.Window,
			MinInterval:      l.MinInterval,
			Used:             min(s.state.Used, MaxUnits),
			Remaining:        s.state.Room(&s.limit.Rule),
			RetryAfter:       span(s.wait),
			NextAfter:        span(s.h.Next(s.arena, &s.limit.Rule, &s.state, now)),
			MinIntervalAfter: span(s.state.IntervalWait(&s.limit.Rule, now)),
			ResetAfter:       span(s.h.Reset(&s.limit.Rule, &s.state, now)),
		}
	}
}

// span converts microseconds, or window.Never, to a duration.
func span(us int64) time.Duration {
	if us == window.Never {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}
