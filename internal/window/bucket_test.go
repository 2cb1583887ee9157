package window

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/race"
)

var grants = flag.Int("window.grants", race.Fewer(3_400_000), "the grants of TestBucketDoesNotDrift at each of three rates")

// epoch is a realistic instant.
const epoch = 1_700_000_000_000_000

// bucketRule returns the rule of a bucket of burst units that refills with most units per
// window of microseconds.
func bucketRule(most, window, burst int64) *Rule {
	f := NewRefill(most, window)
	return &Rule{Max: burst, Window: window, Refill: &f, Rate: 1}
}

// fullAt returns the exact instant at which the bucket is full.
func fullAt(h *History, f *Refill) *big.Rat {
	return new(big.Rat).Add(big.NewRat(h.log().end, 1), big.NewRat(h.log().total, f.Per))
}

// TestBucketDoesNotDrift: a bucket that is never full grants unit k exactly at ceil(k * T)
// after the units of its burst, however many came before (R16). The exact numbers are
// those of math/big.
func TestBucketDoesNotDrift(t *testing.T) {
	for _, c := range []struct{ most, window int64 }{{3, 1_000_000}, {7, 1_000_001}, {999_983, 86_400_000_000}} {
		r := bucketRule(c.most, c.window, 5)
		h, now := Empty, int64(epoch)
		h.Take(r, now, r.Max, false)
		for k := range *grants {
			s := State{Used: h.Missing(r.Refill, now), Last: h.Last}
			now += h.Wait(nil, r, &s, now, 1)
			h.Take(r, now, 1, false)
			if (k+1)%1_000_000 != 0 && k+1 != *grants {
				continue
			}
			flowed, full := timeOf(int64(k+1), c.most, c.window), timeOf(int64(k+1)+r.Max, c.most, c.window)
			full.Add(full, big.NewRat(epoch, 1))
			if got := fullAt(&h, r.Refill); got.Cmp(full) != 0 {
				t.Fatalf("%d per %d µs: after %d grants the bucket is full at %v, want %v", c.most, c.window, k+1, got, full)
			}
			if want := epoch + roundedUp(flowed); now != want {
				t.Fatalf("%d per %d µs: grant %d is at %d, want %d", c.most, c.window, k+1, now, want)
			}
		}
	}
}

// timeOf returns the exact time in which n units flow in.
func timeOf(n, most, window int64) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(n, 1), big.NewRat(window, most))
}

// roundedUp is the least whole number that is not below x.
func roundedUp(x *big.Rat) int64 {
	n, rest := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	return n.Int64() + int64(rest.Sign())
}

// plainBucket is a bucket in fractions, as the rule describes it (R16).
type plainBucket struct {
	full         *big.Rat // the instant at which it is full
	unit         *big.Rat // the time in which a unit flows in
	since, tried int64    // when it was last full, and the newest attempt
}

// fraction returns n as a fraction.
func fraction(n int64) *big.Rat { return big.NewRat(n, 1) }

// lacks returns the time at an instant until the bucket is full.
func (b *plainBucket) lacks(now int64) *big.Rat {
	d := new(big.Rat).Sub(b.full, fraction(max(now, b.since)))
	if d.Sign() < 0 {
		return new(big.Rat)
	}
	return d
}

func (b *plainBucket) missing(now int64) int64 {
	return roundedUp(new(big.Rat).Quo(b.lacks(now), b.unit))
}

func (b *plainBucket) take(now, n, most int64) {
	b.tried = now
	now = max(now, b.since)
	before := b.lacks(now)
	if before.Sign() == 0 {
		b.since = now
	}
	after := new(big.Rat).Add(before, new(big.Rat).Mul(fraction(n), b.unit))
	if limit := new(big.Rat).Mul(fraction(most), b.unit); after.Cmp(limit) > 0 {
		after = limit
	}
	if after.Cmp(before) < 0 {
		after = before
	}
	b.full = after.Add(after, fraction(now))
}

func (b *plainBucket) giveBack(at, now, n int64) int64 {
	missing := b.missing(now)
	if missing == 0 || at < b.since || at > b.tried {
		return 0
	}
	n = min(n, missing)
	b.full.Sub(b.full, new(big.Rat).Mul(fraction(n), b.unit))
	return n
}

// wait returns the time until at most so many units are missing.
func (b *plainBucket) wait(now, units int64) int64 {
	if b.missing(now) <= units {
		return 0
	}
	return roundedUp(new(big.Rat).Sub(b.full, new(big.Rat).Mul(fraction(units), b.unit))) - now
}

func (b *plainBucket) redate(now int64) {
	b.full = new(big.Rat).Add(b.lacks(b.tried), fraction(now))
	b.since, b.tried = min(b.since, now), min(b.tried, now)
}

// pace changes the rate: the whole units that are missing stay, at most so many, and so
// does the time that the next one has waited, rounded up, but at most a whole unit (R12).
func (b *plainBucket) pace(now, most int64, unit *big.Rat) {
	missing := b.missing(now)
	waited := fraction(missing)
	waited.Sub(waited.Mul(waited, b.unit), b.lacks(now))
	b.full = new(big.Rat).Mul(fraction(min(missing, most)), unit)
	if missing > 0 {
		waited.SetInt64(roundedUp(waited))
		if waited.Cmp(unit) > 0 {
			waited.Set(unit)
		}
		b.full.Sub(b.full, waited)
	}
	b.full.Add(b.full, fraction(now))
	b.unit, b.since = unit, now
}

// randomRate returns small rates, rates of long fractions, and rates near the bounds.
func randomRate(r *rand.Rand) (most, window int64) {
	switch r.IntN(3) {
	case 0:
		return 1 + r.Int64N(20), 1000 + r.Int64N(100)
	case 1:
		return 1 + r.Int64N(1_000_000), 1000 + r.Int64N(86_400_000_000)
	}
	return 1 + r.Int64N(1<<r.IntN(53)), 1000 + r.Int64N(400*86_400_000_000)
}

// TestBucketMatchesFractions: random histories of a bucket are those of math/big, to the
// microsecond, its numerator included.
func TestBucketMatchesFractions(t *testing.T) {
	for seed := range uint64(race.Fewer(1500)) {
		r := rand.New(rand.NewPCG(seed, 5))
		rule := randomBucket(r, 1)
		now := int64(epoch)
		h, b := Empty, plainBucket{full: fraction(long), unit: unitOf(rule), since: long, tried: long}
		for step := range 40 {
			f := rule.Refill
			n := 1 + r.Int64N(min(rule.Max, f.MaxExact-rule.Max)+1)
			switch at := now - r.Int64N(2000); r.IntN(10) {
			case 0:
				if got, want := h.GiveBack(f, at, false, now, n), b.giveBack(at, now, n); got != want {
					t.Fatalf("seed %d, step %d: %d of %d units of %d returned at %d, want %d", seed, step, got, n, at, now, want)
				}
			case 1:
				if h.Rate() != 0 {
					now = h.Last - Step - r.Int64N(1000)
					h.Redate(nil, now, now)
					b.redate(now)
				}
			case 2:
				h.Take(rule, now, min(n, rule.Max), true)
				b.take(now, min(n, rule.Max), rule.Max)
			case 3:
				if h.Rate() != 0 {
					rule = randomBucket(r, rule.Rate+1)
					h.Pace(rule, f, now)
					b.pace(now, rule.Refill.MaxExact, unitOf(rule))
				}
			default:
				if h.Missing(f, now)+n <= f.MaxExact {
					h.Take(rule, now, n, false)
					b.take(now, n, MaxUnits)
				}
			}
			wait, reset := b.compare(t, &h, rule, now, n, fmt.Sprintf("seed %d, step %d", seed, step))
			now = max(now+[]int64{0, 1, -1, wait, wait - 1, reset, r.Int64N(1000)}[r.IntN(7)], h.Last, epoch-100*Step)
			if now > MaxInstant/2 {
				break
			}
		}
	}
}

// randomBucket returns the rule of a bucket with a rate of that number.
func randomBucket(r *rand.Rand, rate uint32) *Rule {
	most, window := randomRate(r)
	rule := bucketRule(most, window, 1)
	rule.Max = 1 + r.Int64N(min(rule.Refill.MaxExact, 1<<r.IntN(40)))
	rule.Rate = rate
	if r.IntN(3) == 0 {
		rule.MinInterval = r.Int64N(2000)
	}
	return rule
}

// unitOf returns the time in which a unit flows in.
func unitOf(r *Rule) *big.Rat {
	f := r.Refill
	return new(big.Rat).Add(fraction(f.Micros), big.NewRat(f.Rest, f.Per))
}

// compare compares the units that are missing from a history and its times with those of
// the fractions, and returns the wait for n units and the time until it is full.
func (b *plainBucket) compare(t *testing.T, h *History, rule *Rule, now, n int64, where string) (wait, reset int64) {
	t.Helper()
	s := State{Used: h.Missing(rule.Refill, now), Last: h.Last}
	wait, reset = h.Wait(nil, rule, &s, now, n), h.Reset(rule, &s, now)
	got := []int64{s.Used, wait, reset, h.Next(nil, rule, &s, now)}
	want := []int64{b.missing(now), Never, b.wait(now, 0), b.wait(now, max(b.missing(now)-1, 0))}
	if n <= rule.Max {
		want[1] = max(b.wait(now, rule.Max-n), h.Last+rule.MinInterval-now, 0)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s, %d at most at %+v: at %d missing, wait for %d, reset and next are %d, want %d",
			where, rule.Max, rule.Refill, now, n, got, want)
	}
	return wait, reset
}

// TestRefill: the rate is in lowest terms, and its most units are those of the rule (R16).
func TestRefill(t *testing.T) {
	for _, c := range []struct{ most, window, micros, rest, per, exact int64 }{
		{1, 10, 10, 0, 1, MaxUnits / 11},
		{10, 100, 10, 0, 1, MaxUnits / 11},
		{3, 1_000_000, 333_333, 1, 3, MaxUnits / 333_334},
		{7, 1_000_001, 142_857, 2, 7, MaxUnits / 142_858},
		{6, 1_000_000, 166_666, 2, 3, MaxUnits / 166_667},
		{1_000_000, 1_000, 0, 1, 1_000, MaxUnits},
		{1_000_001, 1_000_000, 0, 1_000_000, 1_000_001, MaxUnits / 1_000_000},
		{1_000_003, 5_000_017, 5, 2, 1_000_003, MaxUnits / 6},
	} {
		f := NewRefill(c.most, c.window)
		if f.Micros != c.micros || f.Rest != c.rest || f.Per != c.per || f.MaxExact != c.exact {
			t.Errorf("%d per %d µs: got %+v, want %d + %d/%d µs a unit and at most %d units",
				c.most, c.window, f, c.micros, c.rest, c.per, c.exact)
		}
		if micros, rest := f.Time(f.MaxExact); f.Units(micros, rest) != f.MaxExact {
			t.Errorf("%d per %d µs: %d units flow in within %d + %d/%d µs, want %d", c.most, c.window, f.Units(micros, rest), micros, rest, f.Per, f.MaxExact)
		}
		word := int64(min(math.MaxUint64/uint64(f.Per), uint64(MaxInstant))) // behind it, a time times Per has more than 64 bits
		for _, micros := range []int64{0, 1, 1_000_000, word - 1, word, word + 1} {
			want := roundedUp(new(big.Rat).Quo(big.NewRat(micros, 1), timeOf(1, c.most, c.window)))
			if want > f.MaxExact {
				continue
			}
			if got := f.Units(micros, 0); got != want {
				t.Errorf("%d per %d µs: %d units flow in within %d µs, want %d", c.most, c.window, got, micros, want)
			}
		}
	}
}
