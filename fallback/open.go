package fallback

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/rulecache"
	"github.com/weirlimit/weir/internal/window"
)

// localOpen decides as an empty store, and records nothing. Only reservations are kept, so that
// each is settled once (R19).
type localOpen struct {
	memory *memory.Memory                    // that of the share, under other names of policies
	rules  rulecache.Cache[*engine.Compiled] // for reservations, without limits
	opened atomic.Bool                       // it has opened a reservation
}

// of returns the rules for reservations under c. Their one limit takes no units and has no
// history. A space is in no name of a policy.
func (o *localOpen) of(c *engine.Compiled) *engine.Compiled {
	rules := o.rules.Get(c)
	if rules == nil {
		rules = o.rules.Put(c, engine.Compile(c.Name+" open", engine.AllOrNothing, c.Dimensions,
			[]engine.Limit{{Name: "limit", Max: 1, Window: time.Minute.Microseconds(), Cost: -1}}))
	}
	return *rules
}

// decideCall decides the call, and opens its reservation if it has a time to live.
func (o *localOpen) decideCall(c *engine.Call) {
	c.Result = openDecision(c)
	if !opens(c) {
		return
	}
	o.opened.Store(true)
	opening := o.opening(c)
	o.memory.Decide(&opening)
	answerOpening(c, &opening)
}

// replay sets the earlier answer to an attempt that has opened a reservation here, and reports
// whether there is one.
func (o *localOpen) replay(c *engine.Call) bool {
	if !o.opened.Load() || c.Op != engine.Attempt || c.TTL == 0 {
		return false
	}
	before := c.Result
	c.Result = openDecision(c)
	opening := o.opening(c)
	if !opens(c) || !o.memory.Replay(&opening) {
		c.Result = before
		return false
	}
	answerOpening(c, &opening)
	return true
}

// opens reports whether an attempt with its decision opens a reservation.
func opens(c *engine.Call) bool {
	return c.Op == engine.Attempt && c.TTL > 0 && c.ID != "" && c.Result.Granted > 0
}

// opening returns the call that opens the reservation of an attempt.
func (o *localOpen) opening(c *engine.Call) engine.Call {
	return engine.Call{
		Rules:       o.of(c.Rules),
		Key:         c.Key,
		N:           c.Result.Granted,
		At:          c.At,
		Given:       c.Given,
		ID:          c.ID,
		TTL:         c.TTL,
		Reservation: c.Reservation,
	}
}

// answerOpening completes the answer to an attempt by that to the call which opened its
// reservation.
func answerOpening(c, opening *engine.Call) {
	if opening.Err != nil {
		c.Fail(opening.Err)
		return
	}
	c.Result.At, c.Result.Replayed = opening.Result.At, opening.Result.Replayed
}

// changeReservation settles or extends a reservation that was opened here, and reports whether
// there is one of that ID.
func (o *localOpen) changeReservation(c *engine.Call) bool {
	return o.opened.Load() && change(o.memory, o.of(c.Rules), c)
}

// openDecision returns the decision of an empty store. Unknown values stay zero:
// Remaining, ResetAfter and the states.
func openDecision(c *engine.Call) engine.Result {
	r := engine.Result{Allowed: true, Granted: c.N, At: instantOf(c), Degraded: true}
	if c.Op == engine.Record {
		return r
	}
	binding := firstBelow(c)
	if binding == nil {
		return r
	}
	r.Granted, r.RetryAfter = 0, engine.Never
	if c.Rules.Mode == engine.Partial {
		least := slices.MinFunc(c.Rules.Limits, func(a, b engine.Limit) int {
			return cmp.Compare(a.Capacity, b.Capacity)
		})
		r.Granted, _ = window.Grant(c.N, least.Capacity, true, true)
		binding = &least
	}
	r.Allowed = r.Granted > 0
	r.Limit = binding.Name
	return r
}

// instantOf returns the instant of the call, in whole microseconds. Without one it reads this
// process's clock.
func instantOf(c *engine.Call) time.Time {
	if c.Given {
		return time.UnixMicro(c.At)
	}
	return time.UnixMicro(time.Now().UnixMicro())
}
