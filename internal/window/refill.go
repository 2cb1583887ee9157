package window

import "math/bits"

// Refill is the rate of a token bucket: one unit flows in every Micros + Rest/Per
// microseconds, the emission interval T of the virtual scheduling algorithm in ITU-T
// I.371, as a whole number and a fraction. So a bucket refills without rounding (R16).
type Refill struct {
	Micros   int64 // whole microseconds of T
	Rest     int64 // numerator of the rest, 0 … Per-1
	Per      int64 // denominator: Max / gcd(Max, Window); 0 = no bucket
	MaxExact int64 // most units with a Time that a double holds exactly: Time(MaxExact) <= MaxUnits
}

// NewRefill returns the rate of most units per window, both above 0.
func NewRefill(most, window int64) Refill {
	g := gcd(most, window)
	most, window = most/g, window/g
	r := Refill{Micros: window / most, Rest: window % most, Per: most}
	r.MaxExact = MaxUnits / max(r.Rest, r.Micros+1)
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
	return n*r.Micros + n*r.Rest/r.Per, n * r.Rest % r.Per
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
	unit := uint64(r.Micros*r.Per + r.Rest) // T * Per
	hi, lo := bits.Mul64(uint64(micros), uint64(r.Per))
	lo, carry := bits.Add64(lo, uint64(rest)+unit-1, 0) // rounded up
	n, _ := bits.Div64(hi+carry, lo, unit)
	return int64(n)
}
