package window

import "math/bits"

// Refill is the rate of a token bucket: one unit flows in every Micros + Rest/Per
// microseconds, the emission interval T of the virtual scheduling algorithm in ITU-T
// I.371, as a whole number and a fraction. So a bucket refills without rounding (R16).
type Refill struct {
	Micros   int64 // whole microseconds of T
	Rest     int64 // numerator of the rest, 0 … Per-1
	Per      int64 // denominator: Max / gcd(Max, Window); 0 = no bucket
	MaxExact int64 // most units with a Time that is exact as a double, too: Time(MaxExact) <= MaxUnits

	unit, per divisor // by T * Per = Micros * Per + Rest, and by Per
}

// NewRefill returns the rate of most units per window, both above 0.
func NewRefill(most, window int64) Refill {
	g := gcd(most, window)
	most, window = most/g, window/g
	r := Refill{Micros: window / most, Rest: window % most, Per: most}
	r.MaxExact = MaxUnits / max(r.Rest, r.Micros+1)
	r.unit, r.per = newDivisor(window), newDivisor(most)
	return r
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// longestFill bounds the time in which a bucket fills: 400 days.
const longestFill int64 = 400 * 24 * 3600 * 1_000_000

// MaxBurst returns the largest capacity of a bucket: its refill is exact, and it fills within
// 400 days (R16).
func (r *Refill) MaxBurst() int64 {
	if full, _ := r.Time(r.MaxExact); full < longestFill {
		return r.MaxExact
	}
	n := r.Units(longestFill, 0)
	if full, rest := r.Time(n); full > longestFill || rest > 0 {
		n--
	}
	return n
}

// Time returns the time in which n units flow in, n * T, as whole microseconds and a
// numerator over Per; 0 <= n <= MaxExact.
func (r *Refill) Time(n int64) (micros, rest int64) {
	if r.Rest == 0 {
		return n * r.Micros, 0
	}
	whole, rest := r.per.divide(uint64(n * r.Rest))
	return n*r.Micros + whole, rest
}

// Within returns the time in which n units flow in, rounded up to a microsecond;
// 0 <= n <= MaxExact.
func (r *Refill) Within(n int64) int64 {
	micros, rest := r.Time(n)
	if rest > 0 {
		micros++
	}
	return micros
}

// Units returns the least number of units with a Time of at least micros + rest/Per.
func (r *Refill) Units(micros, rest int64) int64 {
	hi, lo := bits.Mul64(uint64(micros), uint64(r.Per))
	lo, carry := bits.Add64(lo, uint64(rest)+r.unit.by-1, 0) // rounded up
	if hi |= carry; hi == 0 {
		n, _ := r.unit.divide(lo)
		return n
	}
	n, _ := bits.Div64(hi, lo, r.unit.by)
	return int64(n)
}

// divisor divides by a number in two multiplications, at half the cost of a division
// (BenchmarkBucket).
type divisor struct {
	by      uint64
	inverse uint64 // floor((2^64 - 1) / by)
}

func newDivisor(by int64) divisor {
	return divisor{uint64(by), ^uint64(0) / uint64(by)}
}

// divide returns n / by and n % by. The high word of n * inverse is the quotient, or one
// less.
func (d *divisor) divide(n uint64) (quotient, rest int64) {
	q, _ := bits.Mul64(n, d.inverse)
	r := n - q*d.by
	if r >= d.by {
		q, r = q+1, r-d.by
	}
	return int64(q), int64(r)
}
