package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
)

// end bounds the instant at which a hold or a life ends, by call and return times.
type end struct {
	surely   time.Duration // it lasts until then, at least
	possibly time.Duration // and until then, at most
}

// within returns the end of what ends with e or with o, whichever is first.
func (e end) within(o end) end {
	return end{min(e.surely, o.surely), min(e.possibly, o.possibly)}
}

// lives are the ends of a reservation.
type lives struct{ hold, life end }

// livesAfter returns the ends of a reservation that was opened or extended by a call.
func (h *holdHistory) livesAfter(call span) lives {
	after := func(d time.Duration) end { return end{call.from + d - holdSlack, call.to + d + holdSlack} }
	return lives{after(h.window), after(h.ttl)}
}

// audit checks each reservation by itself, and then the units that all of them hold: they are never
// above Max, and a denial finds as many in use.
func (h *holdHistory) audit() error {
	merged := h.mergedInstants()
	var sure, maybe steps
	for _, b := range h.all {
		if b.opening.Result.Granted == 0 {
			continue
		}
		hold, err := h.auditReservation(b, h.lostOf(b, merged))
		if err != nil {
			return fmt.Errorf("reservation %q of %d units, opened between %v and %v: %w",
				b.opening.ID, b.opening.N, b.opening.from, b.opening.to, err)
		}
		sure.add(b.opening.to, hold.surely, b.opening.N)
		// Where the clock stands still, a hold may end at the instant of a denial, after it.
		maybe.add(b.opening.from, hold.possibly+1, b.opening.N)
	}
	sure.sort()
	maybe.sort()
	if most := sure.most(0, math.MaxInt64); most > holdMax {
		return fmt.Errorf("%d units were in use at once, and Max is %d", most, holdMax)
	}
	for _, b := range h.all {
		o := &b.opening
		if most := maybe.most(o.from, o.to); o.Result.Granted == 0 && most+o.N <= holdMax {
			return fmt.Errorf("an attempt of %d was denied between %v and %v, when at most %d of %d units were in use",
				o.N, o.from, o.to, most, holdMax)
		}
	}
	return nil
}

// mergedInstants returns the instants at which several reservations hold. The units of one instant
// are one entry, so after a reset the hold of one is found for the other.
func (h *holdHistory) mergedInstants() map[time.Time]bool {
	owners, merged := map[time.Time]*held{}, map[time.Time]bool{}
	for _, b := range h.all {
		for _, at := range b.instants() {
			if was := owners[at]; was != nil && was != b {
				merged[at] = true
			}
			owners[at] = b
		}
	}
	return merged
}

// instants returns those at which the reservation began or renewed its hold.
func (b *held) instants() (all []time.Time) {
	if b.opening.Result.Granted > 0 {
		all = append(all, b.opening.Result.At)
	}
	for _, stage := range b.stages {
		for i := range stage {
			if u := &stage[i]; u.Op == engine.Extend && u.Err == nil {
				all = append(all, u.Result.At)
			}
		}
	}
	return all
}

// lostOf returns the instant at which a reset has ended the hold of the reservation.
func (h *holdHistory) lostOf(b *held, merged map[time.Time]bool) end {
	lost := end{math.MaxInt64, math.MaxInt64}
	found := slices.ContainsFunc(b.instants(), func(at time.Time) bool { return merged[at] })
	for _, reset := range h.resets {
		if reset.to >= b.opening.from {
			lost.surely = min(lost.surely, reset.from)
		}
		if reset.from > b.opening.to && !found {
			lost.possibly = min(lost.possibly, reset.to)
		}
	}
	return lost
}

// auditReservation checks the answers of a reservation, and returns the end of its hold. lost is
// the instant of its first reset.
func (h *holdHistory) auditReservation(b *held, lost end) (end, error) {
	now := h.livesAfter(b.opening.span)
	now.hold = now.hold.within(lost)
	for _, stage := range b.stages {
		first, err := b.firsts(stage)
		if err != nil {
			return end{}, err
		}
		next := now
		if first.extended != nil {
			next = h.livesAfter(first.extended.span)
			next.hold = next.hold.within(lost)
		}
		for i := range stage {
			u, latest := &stage[i], next
			if u == first.extended {
				latest = now // it was made by the lives before it
			}
			if err := u.checkLife(now, latest); err != nil {
				return end{}, err
			}
		}
		if now = next; first.settled != nil {
			now.hold = now.hold.within(end{first.settled.from, first.settledBy})
		}
	}
	return now.hold, nil
}

// firsts are the calls of a stage that changed the reservation.
type firsts struct {
	extended  *use          // an extension, or nil
	settled   *use          // a settlement, or nil
	settledBy time.Duration // the first return of a settlement that was made or repeated
}

// firsts returns the calls that changed the reservation, and checks that each other call repeats
// one of them, or has the error of one that came too late.
func (b *held) firsts(stage []use) (first firsts, err error) {
	for i := range stage {
		u := &stage[i]
		if u.Err != nil || u.Result.Replayed {
			continue
		}
		switch {
		case u.Op == engine.Extend && first.extended == nil && u.Result.Allowed:
			first.extended = u
		case u.Op == engine.Settle && first.settled == nil:
			first.settled, first.settledBy = u, u.to
		default:
			return first, fmt.Errorf("op %d of %d units was made twice, or denied: %+v", u.Op, u.N, u.Result)
		}
	}
	for i := range stage {
		u := &stage[i]
		if err := u.checkRepetition(&b.opening, &first); err != nil {
			return first, err
		}
		if u.Op == engine.Settle && u.Err == nil {
			first.settledBy = min(first.settledBy, u.to)
		}
	}
	return first, nil
}

// checkRepetition checks the answer of a call beside those that changed the reservation.
func (u *use) checkRepetition(opening *use, first *firsts) error {
	origin := opening
	switch u.Op {
	case engine.Extend:
		origin = first.extended
	case engine.Settle:
		origin = first.settled
	}
	settled := errors.Is(u.Err, engine.ErrSettled)
	switch {
	case errors.Is(u.Err, engine.ErrExpired) && u.Op != engine.Attempt:
	case u.Err != nil && !settled || settled && first.settled == nil:
		return fmt.Errorf("op %d of %d units: %w", u.Op, u.N, u.Err)
	case settled && u.Op == engine.Settle && u.number(first.settled) == first.settled.Reservation.Actual:
		return fmt.Errorf("it is settled with %d units, and so is this one: %w", u.number(first.settled), u.Err)
	case u.Err != nil:
	case origin == nil:
		return fmt.Errorf("op %d of %d units was repeated, and not made before: %+v", u.Op, u.N, u.Result)
	case u != origin && !isRepeated(&origin.Result, &u.Result):
		return fmt.Errorf("op %d of %d units got %+v, and was repeated with %+v", u.Op, u.N, origin.Result, u.Result)
	case u.Op == engine.Settle && u.number(u) != origin.Reservation.Actual:
		return fmt.Errorf("it is settled with %d units, and was again with %d", origin.Reservation.Actual, u.N)
	}
	return nil
}

// number returns the units of a settlement; by has those of the reservation.
func (u *use) number(by *use) int64 {
	if u.N == engine.AllUnits {
		return by.Reservation.Units
	}
	return u.N
}

// isRepeated reports whether the second result repeats the first.
func isRepeated(first, second *engine.Result) bool {
	return second.Replayed && second.Granted == first.Granted && second.At.Equal(first.At)
}

// checkLife checks that a call finds the reservation while it lives, and no longer. now has the ends
// before the stage, and latest those that it may have by then.
func (u *use) checkLife(now, latest lives) error {
	ended := now.life
	ended.possibly = latest.life.possibly
	if u.Op == engine.Extend || u.N == engine.AllUnits {
		ended = ended.within(end{now.hold.surely, latest.hold.possibly})
	}
	switch expired := errors.Is(u.Err, engine.ErrExpired); {
	case expired && u.to < ended.surely:
		return fmt.Errorf("op %d of %d units between %v and %v found it expired, and it lasts until %v at least",
			u.Op, u.N, u.from, u.to, ended.surely)
	case u.Err == nil && !u.Result.Replayed && u.from > ended.possibly:
		return fmt.Errorf("op %d of %d units between %v and %v found it, and it ended at %v at most",
			u.Op, u.N, u.from, u.to, ended.possibly)
	}
	return nil
}

// charged returns the units that the reservation leaves in a rate: those of its settlement, but at
// least those before the newest grant.
func (b *held) charged() int64 {
	units := b.opening.Result.Granted
	newest := units
	for _, stage := range b.stages {
		for i := range stage {
			if u := &stage[i]; u.Op == engine.Extend && u.Err == nil && !u.Result.Replayed && u.N > 0 {
				units, newest = units+u.N, u.N
			}
		}
	}
	for _, stage := range b.stages {
		for i := range stage {
			if u := &stage[i]; u.Op == engine.Settle && u.Err == nil {
				return max(u.Reservation.Actual, units-newest)
			}
		}
	}
	return units
}

// steps is a number of units over time, as changes at instants.
type steps []change

type change struct {
	at    time.Duration
	units int64
}

func (s *steps) add(from, to time.Duration, units int64) {
	if from < to {
		*s = append(*s, change{from, units}, change{to, -units})
	}
}

// sort orders changes by time, decreases first.
func (s steps) sort() {
	slices.SortFunc(s, func(a, b change) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.units - b.units)
	})
}

// most returns the most units at an instant of the span.
func (s steps) most(from, to time.Duration) (most int64) {
	units := int64(0)
	for _, step := range s {
		if step.at > to {
			break
		}
		if step.at > from {
			most = max(most, units)
		}
		units += step.units
	}
	return max(most, units)
}
