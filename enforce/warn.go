package enforce

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// crosses reports whether taking units brought the use of a limit from below percent of its
// capacity to that share or above (R5). used is the use afterwards. All numbers are at most
// 2^52, so the products fit.
func crosses(used, units, capacity, percent int64) bool {
	share := capacity * percent
	return (used-units)*100 < share && used*100 >= share
}

// withStates returns a, with room for the states that its warnings need: the Remaining of a
// decision is that of several limits, or of a block.
func (r *Rule) withStates(op weir.Op, a *Request) *Request {
	if a.States != nil || r.WarnPercents == nil || !r.charges(op, a.N) || len(r.Limits) == 1 && r.blocks == nil {
		return a
	}
	with := *a
	with.States = make([]weir.LimitState, len(r.Limits))
	return &with
}

// charges reports whether a request can carry a warning: an attempt, or the record of a
// policy that counts reports.
func (r *Rule) charges(op weir.Op, n int64) bool {
	return n > 0 && (op == weir.OpAttempt || op == weir.OpRecord && r.Reported)
}

// warn sets the warnings of a new decision. states are those of the limits, unless the
// decision has them. units returns the units that a grant took of a limit.
func (r *Rule) warn(o *Outcome, op weir.Op, n int64, states []weir.LimitState, units func(l *engine.Limit) int64) {
	d := &o.Decision
	if r.WarnPercents == nil || !r.charges(op, n) || !d.Allowed || d.Degraded || d.Replayed {
		return
	}
	limits := o.Limiter.Compiled().Limits
	for i, percent := range r.WarnPercents {
		l, used := &limits[i], limits[i].Capacity-d.Remaining
		if states != nil {
			if states[i].Name == "" { // unknown
				continue
			}
			used = states[i].Used
		}
		if percent > 0 && crosses(used, units(l), l.Capacity, int64(percent)) {
			o.Applied.Warnings = append(o.Applied.Warnings, l.Name)
		}
	}
}

// granted returns the units that the decision took of a limit.
func (o *Outcome) granted(l *engine.Limit) int64 { return l.Units(o.Decision.Granted) }
