package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/engine"
)

// minute is the least time for which a reservation is remembered after its grant and after its
// settlement (R19).
const minute = 60 * second

// reservation is granted units that are settled once (R19). Instants are microseconds.
type reservation struct {
	units    int64 // all granted units
	at       int64 // the instant of the newest grant: of the attempt, or of an extension
	newest   int64 // the units of the newest grant, which a settlement can take back
	held     int64 // the units of the attempt, which concurrency limits hold
	hold     int64 // the instant of the hold; -1 = none
	ttl      int64
	start    int64 // the instant at which its life begins (R18)
	expires  int64
	extended *engine.Result // the result of the newest extension with units; nil = none

	settled    bool
	actual     int64 // units
	settlement engine.Result
}

// opened is the reservation of an attempt that was granted.
func opened(c *engine.Call) *reservation {
	at := startOf(c.Result)
	r := &reservation{units: c.Result.Granted, at: at, newest: c.Result.Granted, held: c.Result.Granted, hold: -1,
		ttl: c.TTL, start: at, expires: at + c.TTL}
	if shortest, _ := holds(c.Rules); shortest > 0 {
		r.hold = at
	}
	return r
}

// holds has the shortest and the longest hold of the concurrency limits, in microseconds, or 0
// without any.
func holds(p *engine.Compiled) (shortest, longest int64) {
	for _, limit := range p.Limits {
		if limit.Kind != engine.KindConcurrency {
			continue
		}
		if shortest == 0 || limit.Window < shortest {
			shortest = limit.Window
		}
		longest = max(longest, limit.Window)
	}
	return shortest, longest
}

// named is the holds of a concurrency limit, those of open reservations of the call's key apart.
func (e *Engine) named(c *engine.Call, limit engine.Limit, holds []engine.Entry, now int64) []engine.Entry {
	one := *c
	one.ID = ""
	owner := strings.TrimSuffix(operationName(&one), `""`)
	var all []engine.Entry
	for _, hold := range holds {
		var ids []string
		units := map[string]int64{}
		for name, o := range e.done {
			id, err := strconv.Unquote(strings.TrimPrefix(name, owner))
			r := o.grant
			if err == nil && r != nil && !r.settled && r.hold == hold.At && now < o.until {
				ids, units[id] = append(ids, id), limit.Units(r.held)
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			held := min(units[id], hold.Units)
			if hold.Units -= held; held > 0 {
				all = append(all, engine.Entry{At: hold.At, Units: held, ID: id})
			}
		}
		if hold.Units > 0 {
			all = append(all, hold)
		}
	}
	return all
}

// kept is the instant until which the reservation is remembered after a grant, an extension or
// a settlement at now (R19).
func (r *reservation) kept(now int64) int64 { return max(r.expires, now+minute) }

// describe sets the reservation of a call, if it wants one. A nil reservation is none.
func (r *reservation) describe(c *engine.Call) {
	if c.Reservation == nil || r == nil {
		return
	}
	*c.Reservation = engine.Reservation{Units: r.units, ExpiresAt: r.expires, Settled: r.settled, Actual: r.actual}
	if shortest, _ := holds(c.Rules); shortest > 0 && r.hold >= 0 && !r.settled {
		c.Reservation.HeldUntil = r.hold + shortest
	}
}

// find returns the name and the operation of a reservation that is known at an instant, or
// ErrExpired.
func (e *Engine) find(c *engine.Call, at int64) (name string, o operation, err error) {
	name = operationName(c)
	o, ok := e.done[name]
	if !ok || at >= o.until || o.grant == nil {
		return name, o, fmt.Errorf("%w: it is unknown, or was settled more than a minute ago", engine.ErrExpired)
	}
	return name, o, nil
}

// lives returns ErrExpired unless the reservation lives at an instant.
func (r *reservation) lives(at int64) error {
	if at >= r.expires {
		return fmt.Errorf("%w: the grant of %d stays", engine.ErrExpired, r.units)
	}
	return nil
}

// settle settles a reservation (R19).
func (e *Engine) settle(c *engine.Call, at int64) error {
	name, o, err := e.find(c, at)
	if err != nil {
		return err
	}
	r := *o.grant
	actual := c.N
	if actual == engine.AllUnits {
		actual = r.units
	}
	if r.settled && actual != r.actual {
		return fmt.Errorf("%w: with %d, and now %d", engine.ErrSettled, r.actual, actual)
	}
	if r.settled {
		c.Result = r.settlement
		c.Result.Replayed = true
		r.describe(c)
		return nil
	}
	if err := r.lives(at); err != nil {
		return err
	}
	names := namesOf(c, c.Rules.Limits)
	before := e.lookPast(c.Rules.Limits, names, at)
	after := before.next()
	ended, refunded := int64(0), int64(0)
	hasHold, recorded := false, false
	isCancelled := actual == 0 && r.newest == r.units // a cost of an appointment is returned (R18)
	for i, limit := range before.limits {
		h := before.past[i]
		taken, wrote := int64(0), false
		switch {
		case limit.Kind == engine.KindConcurrency:
			if r.hold >= 0 {
				hasHold = true
				h, taken = before.refundIn(i, r.hold, r.held, true)
				ended = max(ended, taken)
			}
		case actual < r.units:
			back := min(r.units-actual, r.newest)
			h, taken = before.refundIn(i, r.at, back, isCancelled)
			refunded = max(refunded, min(taken, back))
		case actual > r.units && limit.Cost == 0: // a cost is charged once (R19)
			record := engine.Call{Rules: c.Rules, Op: engine.Record, N: actual - r.units}
			if h, err = before.recordIn(i, &record, record.N, record.N); err != nil {
				return err
			}
			wrote, recorded = true, true
		}
		after = after.with(h, wrote || taken > 0)
	}
	if c.N == engine.AllUnits && hasHold && ended == 0 {
		return fmt.Errorf("%w: its hold has ended; settle it with a number of units", engine.ErrExpired)
	}
	if ended > 0 || refunded > 0 || recorded {
		e.keep(names, after)
	}
	c.Result = engine.Result{Granted: refunded, At: time.UnixMicro(after.now)}
	r.settled = true
	r.actual = actual
	r.settlement = c.Result
	o.grant = &r
	o.until = max(o.until, r.kept(after.now))
	e.done[name] = o
	r.describe(c)
	return nil
}

// extend renews the life and the hold of a reservation, and takes further units (R19).
func (e *Engine) extend(c *engine.Call, at int64) error {
	name, o, err := e.find(c, at)
	if err != nil {
		return err
	}
	r := *o.grant
	if r.settled {
		return fmt.Errorf("%w: with %d", engine.ErrSettled, r.actual)
	}
	if err := r.lives(at); err != nil {
		return err
	}
	if c.N > 0 && c.From != engine.Unknown && c.From != r.units {
		if r.extended != nil && c.From+c.N == r.units && c.N == r.newest {
			c.Result = *r.extended
			c.Result.Replayed = true
			r.describe(c)
			return nil
		}
		return engine.Input("units", "the reservation has %d, not %d; extend it from that number", r.units, c.From)
	}
	if r.units+c.N > engine.MaxUnits {
		return engine.Input("units", "the reservation has %d, and %d more pass %d; take fewer", r.units, c.N, engine.MaxUnits)
	}
	taking := func(limit engine.Limit) bool {
		return c.N > 0 && limit.Kind != engine.KindConcurrency && limit.Cost == 0
	}
	names := namesOf(c, c.Rules.Limits)
	v := e.lookAt(c.Rules.Limits, names, at, taking) // blocks deny the further units only

	// The limits of which it takes units, as an attempt under these alone.
	var places []int
	part := view{now: v.now}
	wrote := make([]bool, len(v.limits))
	for i := range v.limits {
		if taking(v.limits[i]) {
			places = append(places, i)
			part.limits = append(part.limits, v.limits[i])
			part.past = append(part.past, v.past[i])
			part.blocks = append(part.blocks, v.blocks[i])
		}
	}
	shortest, longest := holds(c.Rules)
	hasHold := r.hold >= 0 && shortest > 0
	if hasHold && v.now >= r.hold+shortest {
		return fmt.Errorf("%w: its hold has ended", engine.ErrExpired)
	}
	after := v.next()
	after.past, after.wrote = slices.Clone(v.past), wrote
	moved := int64(0)
	for i, limit := range v.limits {
		if !hasHold || limit.Kind != engine.KindConcurrency {
			continue
		}
		h, taken := v.refundIn(i, r.hold, r.held, true)
		if taken == 0 {
			continue
		}
		h = h.pruned(limit, v.now).plus(h.open(limit, v.now), taken)
		h.tried, h.last = true, v.now
		after.past[i], wrote[i] = h, true
		moved = max(moved, taken)
	}
	if hasHold && moved == 0 {
		return fmt.Errorf("%w: its hold has ended", engine.ErrExpired)
	}
	c.Result = engine.Result{Allowed: true, Granted: c.N, At: time.UnixMicro(v.now)}
	if len(places) > 0 {
		fits := part.fits(c.N)
		left := part
		if fits {
			left.past = nil
			attempt := engine.Call{Rules: c.Rules, Op: engine.Attempt, N: c.N}
			for j, i := range places {
				h, err := part.recordIn(j, &attempt, c.N, c.N)
				if err != nil {
					return err
				}
				after.past[i], wrote[i] = h, true
				left.past = append(left.past, h)
			}
		}
		left.answer(&c.Result, c.N)
		if !fits {
			c.Result.Allowed, c.Result.Granted = false, 0
			c.Result.Limit = part.bound(left, engine.AllOrNothing, c.N, 0)
			o.grant.describe(c)
			return nil
		}
		e.keep(names, after)
	} else if moved > 0 {
		e.keep(names, after)
	}
	if c.N > 0 {
		result := c.Result
		r.units += c.N
		r.at = v.now
		r.newest = c.N
		r.extended = &result
	}
	r.expires = max(v.now, r.start) + r.ttl // its life begins with its start (R18)
	if hasHold {
		r.hold, r.expires = v.now, v.now+max(r.ttl, longest)
	}
	o.grant, o.until = &r, max(o.until, r.kept(v.now))
	e.done[name] = o
	r.describe(c)
	return nil
}
