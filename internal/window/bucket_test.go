package window

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
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

// TestTakeAddsItsUnits: after n units were taken, exactly n more are missing, whatever part of a
// unit has flowed in. So an engine need not count the missing units again.
func TestTakeAddsItsUnits(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	for range race.Fewer(100_000) {
		r := bucketRule(1+random.Int64N(1000), 1+random.Int64N(10_000), 100)
		h, now := Empty, int64(epoch)
		for range 20 {
			now += random.Int64N(100)
			n := 1 + random.Int64N(5)
			before := h.Missing(r.Refill, now)
			h.Take(r, now, n, false)
			if got := h.Missing(r.Refill, now); got != before+n {
				t.Fatalf("seed %d: %d of %+v are missing, and %d after %d were taken", seed, before, *r.Refill, got, n)
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
		assert.Equal(t, f.Units(f.Time(f.MaxExact)), f.MaxExact, "%d per %d µs: units that flow in within the time of so many", c.most, c.window)
		for _, n := range []int64{0, 1, c.most / 2, min(2*c.most, f.MaxExact)} {
			assert.Equal(t, f.Within(n), roundedUp(timeOf(n, c.most, c.window)), "%d per %d µs: microseconds in which %d units flow in", c.most, c.window, n)
		}
		word := int64(min(math.MaxUint64/uint64(f.Per), uint64(MaxInstant))) // behind it, a time times Per has more than 64 bits
		for _, micros := range []int64{0, 1, 1_000_000, word - 1, word, word + 1} {
			want := roundedUp(new(big.Rat).Quo(big.NewRat(micros, 1), timeOf(1, c.most, c.window)))
			if want > f.MaxExact {
				continue
			}
			assert.Equal(t, f.Units(micros, 0), want, "%d per %d µs: units that flow in within %d µs", c.most, c.window, micros)
		}
	}
}
