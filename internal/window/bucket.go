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

// A history of a bucket has no entries. It holds
//
//	end, total   the instant at which the bucket is full: end + total/Per microseconds (R16)
//	front        the instant of the newest take from a full bucket, or of its newest rate (R12).
//	             A reading of the clock before front finds the bucket as it was at front
//	Last         the instant of the newest attempt, as in every history
//	run          the rate by which it refills, as the engine numbers rates
//
// A bucket that was never used is Empty, which reads as one that is full.

// setRate makes the history a bucket with that rate.
func (h *History) setRate(rate uint32) {
	h.set(bucket, 0)
	h.run = Run(rate)
}

// missing returns the time until the bucket is full: whole microseconds and a numerator
// over Per. Both are 0 if it is full.
func (h *History) missing(now int64) (micros, rest int64) {
	l := h.log()
	if now = max(now, l.front); l.end < now {
		return 0, 0
	}
	return l.end - now, l.total
}

// Missing returns the units that are missing from the bucket at now, rounded up.
func (h *History) Missing(f *Refill, now int64) int64 {
	micros, rest := h.missing(now)
	if micros|rest == 0 {
		return 0
	}
	return f.Units(micros, rest)
}

// Take takes n units from the bucket at now, 0 < n <= Refill.MaxExact. If floor is set, it
// takes at most the units in the bucket (R16).
func (h *History) Take(r *Rule, now, n int64, floor bool) {
	h.setRate(r.Rate)
	h.Last = now
	l := h.log()
	now = max(now, l.front)
	micros, rest := h.missing(now)
	if micros|rest == 0 {
		l.front = now
	}
	add, part := r.Refill.Time(n)
	add, part = r.Refill.carry(add+micros, part+rest)
	if floor {
		most, maxPart := r.Refill.Time(r.Max)
		if later(add, part, most, maxPart) {
			add, part = most, maxPart
			if later(micros, rest, add, part) {
				add, part = micros, rest
			}
		}
	}
	l.end, l.total = now+add, part
}

// carry carries a numerator from -Per to 2*Per - 1.
func (f *Refill) carry(micros, rest int64) (int64, int64) {
	switch {
	case rest >= f.Per:
		return micros + 1, rest - f.Per
	case rest < 0:
		return micros - 1, rest + f.Per
	}
	return micros, rest
}

// later reports whether a time with a fraction is longer than another.
func later(micros, rest, than, thanRest int64) bool {
	return micros > than || micros == than && rest > thanRest
}

// GiveBack gives up to n units granted at instant at back to the bucket, or those of the
// oldest grants if oldest is set. It returns their number. A grant from before the bucket was
// last full has flowed in already (R10, R16). Afterwards the bucket may be full before now, so
// that an attempt at an earlier reading of the clock finds no unit missing (R2).
func (h *History) GiveBack(f *Refill, at int64, oldest bool, now, n int64) int64 {
	l, missing := h.log(), h.Missing(f, now)
	if missing == 0 || !oldest && (at < l.front || at > h.Last) {
		return 0
	}
	n = min(n, missing)
	micros, rest := f.Time(n)
	l.end, l.total = f.carry(l.end-micros, l.total-rest)
	return n
}

// until is the time until at most so many units are missing from the bucket, rounded up. More
// are missing at now.
func (h *History) until(f *Refill, now, units int64) int64 {
	less, rest := f.Time(units)
	l := h.log()
	wait := l.end - less - now
	if l.total > rest {
		wait++
	}
	return wait
}

// Pace changes the rate of a bucket from old to that of the rule, at now. The units that are
// missing stay missing, and the next one keeps the time that it has waited (R12).
func (h *History) Pace(r *Rule, old *Refill, now int64) {
	units := h.Missing(old, now)
	// The next unit has waited for the time by which less than the whole of it is missing.
	micros, rest := h.missing(now)
	whole, part := old.Time(units)
	waited := whole - micros
	if part > rest {
		waited++
	}
	units = min(units, r.Refill.MaxExact)
	micros, rest = r.Refill.Time(units)
	less, part := r.Refill.Time(min(units, 1))
	if waited <= less {
		less, part = waited, 0
	}
	micros, rest = r.Refill.carry(micros-less, rest-part)
	h.setRate(r.Rate)
	*h.log() = log{now + micros, now, rest}
}

// SetBucket makes an Empty history a bucket with the rate and the state of another one: its
// Full, Part, Front and Last.
func (h *History) SetBucket(rate uint32, full, part, front, last int64) {
	h.setRate(rate)
	h.Last = last
	*h.log() = log{full, front, part}
}

// Bucket returns the arguments of SetBucket, without rate and Last.
func (h *History) Bucket() (full, part, front int64) {
	l := h.log()
	return l.end, l.total, l.front
}
