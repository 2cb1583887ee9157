// Package settle corrects a grant after its use, for the reservations of package weir and for
// those in tokens of weir serve.
//
// A grant is corrected in steps, each one call of the engine. With a Name, every step has an
// idempotency key. So after an error the steps can be repeated in full, and each changes the
// histories once. A table of steps made so far would be lost with the process.
package settle

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Grant is the recorded units of an attempt. Instants are by the engine's clock, in
// microseconds since 1970.
type Grant struct {
	Rules    *engine.Compiled
	Key      engine.Key
	Units    int64
	At       int64 // the instant of the grant
	Hold     int64 // the instant of the entries in concurrency limits: At, or that of the last extension
	Degraded bool  // a fallback granted it, so the store has no entry of it

	Name string                              // begins the idempotency keys; "" = none, for an engine that answers every call
	Do   func(context.Context, *engine.Call) // makes a call of the engine
}

// ErrEnded reports that the hold has ended by time, or that its units were taken back.
var ErrEnded = errors.New("the hold has ended")

// TTLs returns the least and the longest time to live of a reservation. After the longest
// window nothing is left to settle. A reservation that ends before its hold would leave the
// units held, and no call could end the hold (S4).
func TTLs(rules *engine.Compiled) (least, longest time.Duration) {
	least, longest = time.Microsecond, rules.LongestWindow
	if rules.Holds != nil {
		for i := range rules.Holds.Limits {
			least = max(least, time.Duration(rules.Holds.Limits[i].Window)*time.Microsecond)
		}
	}
	return least, longest
}

// HeldUntil returns the instant at which the hold ends by itself.
func (g *Grant) HeldUntil() time.Time { return time.UnixMicro(g.Hold).Add(g.Rules.HoldTime) }

// Correct refunds or records the difference to the granted units, in the limits that are not
// that is a concurrency limit. It returns the refunded units. It refunds nothing of a fallback's
// grant: the store may have an entry of another caller at that instant.
func (g *Grant) Correct(ctx context.Context, actual int64) (refunded int64, err error) {
	rates := g.Rules.Rates
	switch {
	case rates == nil:
	case actual > g.Units:
		_, err = g.call(ctx, &engine.Call{Rules: rates, Op: engine.Record, N: actual - g.Units}, "")
	case actual < g.Units && !g.Degraded:
		refunded, err = g.takeBack(ctx, rates, g.At, g.Units-actual, "")
	}
	return refunded, err
}

// End takes the units of the hold back, and returns their number. The error is ErrEnded if
// no unit was held any more.
func (g *Grant) End(ctx context.Context) (took int64, err error) {
	holds := g.Rules.Holds
	if holds == nil || g.Degraded || g.Units == 0 {
		return 0, nil
	}
	took, err = g.takeBack(ctx, holds, g.Hold, g.Units, " end")
	if err == nil && took == 0 {
		err = ErrEnded
	}
	return took, err
}

// Renew moves the hold to now: it records the units now and takes them back at the old
// instant. If they were no longer held there, it takes back the new ones, and the error is
// ErrEnded. number names the extension among those of the grant. The result is that of the
// record. It fails without the store: a fallback records nothing there, and would hide that
// the answer to a record was lost.
func (g *Grant) Renew(ctx context.Context, number string) (engine.Result, error) {
	holds, end := g.Rules.Holds, g.HeldUntil()
	now, err := g.call(ctx, &engine.Call{Rules: holds, Op: engine.Record, N: g.Units, Outage: engine.OutageDeny}, " extend"+number)
	if err != nil {
		return now, err
	}
	if now.At.Before(end) {
		took, err := g.takeBack(ctx, holds, g.Hold, g.Units, " move"+number)
		if err != nil {
			return now, err
		}
		if took >= min(g.Units, g.Rules.MaxHeld) {
			g.Hold = now.At.UnixMicro()
			return now, nil
		}
	}
	if _, err := g.takeBack(ctx, holds, now.At.UnixMicro(), g.Units, " undo"+number); err != nil {
		return now, err
	}
	return now, ErrEnded
}

// takeBack takes n units of the entry of an instant back, once for the step.
func (g *Grant) takeBack(ctx context.Context, rules *engine.Compiled, at, n int64, step string) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	r, err := g.call(ctx, &engine.Call{Rules: rules, Op: engine.Refund, N: n, From: at}, step)
	return r.Granted, err
}

// call makes a call of the engine, once for the step.
func (g *Grant) call(ctx context.Context, c *engine.Call, step string) (engine.Result, error) {
	c.Key = g.Key
	if g.Name != "" {
		c.ID = g.Name + step
	}
	g.Do(ctx, c)
	return c.Result, c.Err
}
