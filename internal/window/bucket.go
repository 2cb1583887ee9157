package window

// A history of a bucket has no entries. It holds
//
//	end, total   the instant at which the bucket is full: end + total/Per microseconds (R16)
//	front        the instant of the newest take from a full bucket, or of its newest rate (R12).
//	             A reading of the clock before front finds the bucket as it was at front
//	Last         the instant of the newest attempt, as in every history
//	run          the rate by which it refills, as the engine numbers rates
//
// A bucket that was never used is Empty, which reads as one that is full.

// Rate returns the number of the rate of a bucket, or 0 for a history with entries.
func (h *History) Rate() uint32 {
	if h.form() != bucket {
		return 0
	}
	return uint32(h.run)
}

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
	add, part = r.Refill.plus(add+micros, part+rest)
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

// plus carries a numerator below 2 * Per.
func (f *Refill) plus(micros, rest int64) (int64, int64) {
	if rest >= f.Per {
		return micros + 1, rest - f.Per
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
	l.end, l.total = l.end-micros, l.total-rest
	if l.total < 0 {
		l.end, l.total = l.end-1, l.total+f.Per
	}
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
	micros, rest = micros-less, rest-part
	if rest < 0 {
		micros, rest = micros-1, rest+r.Refill.Per
	}
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
