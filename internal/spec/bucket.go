package spec

import (
	"math/big"

	"github.com/weirlimit/weir/engine"
)

// bucket is a token bucket as it was when units were last taken or given back: the
// units that were missing then, as a fraction, and the rate at which they return (R16).
type bucket struct {
	missing *big.Rat // units; below 0 if units given back filled it before asOf
	asOf    int64    // the instant at which they were missing
	rate    *big.Rat // units that flow in per microsecond
	since   int64    // when units were last taken from a full bucket, or its rate changed
}

// rateOf is the rate of a limit: Max per Window.
func rateOf(limit engine.Limit) *big.Rat { return big.NewRat(limit.Max, limit.Window) }

// full is a full bucket.
func full(limit engine.Limit, now int64) *bucket {
	return &bucket{missing: new(big.Rat), asOf: now, rate: rateOf(limit), since: now}
}

// at is the bucket at an instant: units that flowed in since asOf are no longer missing. A reading
// of the clock before since finds it as it was then.
func (b *bucket) at(now int64) *bucket {
	now = max(now, b.since)
	flowed := new(big.Rat).Mul(b.rate, big.NewRat(now-b.asOf, 1))
	c := *b
	c.missing, c.asOf = new(big.Rat).Sub(b.missing, flowed), now
	if c.missing.Sign() <= 0 {
		c.missing, c.since = new(big.Rat), now
	}
	return &c
}

// units is the number of whole units that are missing at an instant: a unit of which a
// part is missing cannot be granted.
func (b *bucket) units(now int64) int64 { return ceil(b.at(now).missing) }

// minus is the bucket after n more units are taken at an instant. The number of missing units
// is at most most afterwards, unless more were missing already.
func (b *bucket) minus(now, n, most int64) *bucket {
	c := b.at(now)
	missing := new(big.Rat).Add(c.missing, big.NewRat(n, 1))
	if limit := big.NewRat(most, 1); missing.Cmp(limit) > 0 {
		missing = limit
	}
	if missing.Cmp(c.missing) > 0 {
		c.missing = missing
	}
	return c
}

// plus is the bucket after n units were given back at an instant, and the whole units that
// this returned. It is full sooner by their time, also for an earlier reading of the clock.
func (b *bucket) plus(now, n int64) (*bucket, int64) {
	taken := min(n, b.units(now))
	c := *b
	c.missing = new(big.Rat).Sub(b.missing, big.NewRat(taken, 1))
	return &c, taken
}

// until is the instant from which at most that many units are missing.
func (b *bucket) until(units int64) int64 {
	more := new(big.Rat).Sub(b.missing, big.NewRat(units, 1))
	return b.asOf + ceil(more.Quo(more, b.rate))
}

// paced is the bucket with the rate of a changed limit. The whole units that are missing stay
// missing. The next one keeps the time that it has already waited, rounded up to a
// microsecond, but not beyond the whole unit (R12).
func (b *bucket) paced(limit engine.Limit, now int64) *bucket {
	rate := rateOf(limit)
	if b.rate.Cmp(rate) == 0 {
		return b
	}
	c := *b.at(now)
	whole := big.NewRat(ceil(c.missing), 1)
	part := new(big.Rat).Sub(whole, c.missing)
	whole = big.NewRat(min(ceil(c.missing), limit.Refill.MaxExact), 1)
	waited := ceil(part.Quo(part, b.rate))
	part = new(big.Rat).Mul(rate, big.NewRat(waited, 1))
	if one := big.NewRat(1, 1); part.Cmp(one) > 0 {
		part = one
	}
	c.missing = whole.Sub(whole, part)
	c.rate = rate
	c.asOf, c.since = now, now
	return &c
}

// ceil is the least whole number that is not below x.
func ceil(x *big.Rat) int64 {
	n := new(big.Int).Add(x.Num(), x.Denom())
	n.Sub(n, big.NewInt(1))
	return new(big.Int).Div(n, x.Denom()).Int64() // rounds down
}
