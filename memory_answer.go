package weir

import (
	"time"

	"github.com/weirlimit/weir/internal/window"
)

// answer completes the decision from the histories as they are now (R8).
func answer(b *memoryBinding, p *Plan, a *Request, sites []site, now int64, full bool, d *Decision) {
	var wait, reset int64
	remaining := int64(window.Forever)
	for i := range sites {
		s := &sites[i]
		r := &s.limit.Rule
		s.wait = s.h.Wait(s.arena, r, &s.state, now, s.limit.units(a.N))
		if window.Longer(s.wait, wait) {
			wait = s.wait
		}
		reset = max(reset, s.h.Reset(r, &s.state, now))
		remaining = min(remaining, s.state.Room(r))
	}
	d.Remaining, d.RetryAfter, d.ResetAfter = remaining, span(wait), span(reset)
	d.At = time.UnixMicro(now)
	if !full {
		d.Limit = bound(b.mode, sites, a.N, d.Granted).limit.name
	}
	if a.States != nil {
		describe(p, sites, a.States, now)
	}
}

// bound returns the limit that kept an attempt of n units from being granted in
// full: of those that cut a partial grant the one with the least room, of those
// that refused the one with the longest wait; the first of equals.
func bound(mode window.Mode, sites []site, n, granted int64) *site {
	var b *site
	for i := range sites {
		s := &sites[i]
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

// describe fills in the state of every limit.
func describe(p *Plan, sites []site, states []LimitState, now int64) {
	for i := range sites {
		s, l := &sites[i], &p.policy.Limits[i]
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
