package window

// A history of a bucket needs no log. It holds
//
//	End, Total   the instant at which the bucket is full: End + Total/Per microseconds (R16)
//	Front        the instant at which it was last full, or got its rate (R12); -1<<60 if it was never used.
//	             A reading of the clock before it finds the bucket as it was then
//	Last         the instant of the newest attempt, as in every history
//	log.tail     the rate by which it refills, as the engine numbers rates; log.head is 0

// Rate returns the number of the rate of a bucket, 0 of a history with entries.
func (h *History) Rate() uint32 {
	if h.log.head != 0 {
		return 0
	}
	return uint32(h.log.tail)
}

// missing returns the time until the bucket is full: whole microseconds and a numerator
// over Per. Both are 0 if it is full.
func (h *History) missing(now int64) (micros, rest int64) {
	if now = max(now, h.Front); h.End < now {
		return 0, 0
	}
	return h.End - now, h.Total
}

// Missing returns the units that are missing from the bucket at now, a part as one.
func (h *History) Missing(f *Refill, now int64) int64 {
	micros, rest := h.missing(now)
	if micros|rest == 0 {
		return 0
	}
	return f.Units(micros, rest)
}

// Take takes n units from the bucket at now, 0 < n <= Refill.MaxExact. If floor is set, it
// takes no more than empty the bucket (R16).
func (h *History) Take(r *Rule, now, n int64, floor bool) {
	h.log.tail = place(r.Rate)
	h.Last = now
	now = max(now, h.Front)
	micros, rest := h.missing(now)
	if micros|rest == 0 {
		h.Front = now
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
	h.End, h.Total = now+add, part
}

// TakeOne decides one unit of a bucket without a minimum interval, and takes it if it is
// there. The history must have the rule's rate. TakeOne takes the steps of Missing, Room, Take and Waits in
// one pass (BenchmarkBucket). missing is the number of units that are missing afterwards.
func (h *History) TakeOne(r *Rule, now int64) (missing, wait, reset int64, granted bool) {
	f := r.Refill
	micros, rest := h.missing(now)
	if micros|rest != 0 {
		missing = f.Units(micros, rest)
	}
	if missing < r.Max {
		missing, granted = missing+1, true
		from := max(now, h.Front)
		if micros|rest == 0 {
			h.Front = from
		}
		micros, rest = f.plus(micros+f.Micros, rest+f.Rest)
		h.End, h.Total, h.Last = from+micros, rest, now
	}
	if missing >= r.Max {
		wait = h.until(f, now, r.Max-1)
	}
	reset = h.End - now
	if h.Total > 0 {
		reset++
	}
	return missing, wait, reset, granted
}

// plus carries a numerator of up to 2 * Per.
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

// GiveBack returns up to n units granted at instant at to the bucket, or the oldest grant's
// if oldest is set, and returns their number. A grant from before the bucket was last full
// has flowed in already (R10, R16).
func (h *History) GiveBack(f *Refill, at int64, oldest bool, now, n int64) int64 {
	missing := h.Missing(f, now)
	if missing == 0 || !oldest && (at < h.Front || at > h.Last) {
		return 0
	}
	if n >= missing {
		h.Front = max(now, h.Front)
		h.End, h.Total = h.Front, 0
		return missing
	}
	micros, rest := f.Time(n)
	h.End, h.Total = h.End-micros, h.Total-rest
	if h.Total < 0 {
		h.End, h.Total = h.End-1, h.Total+f.Per
	}
	return n
}

// until is the time until at most that many units are missing from the bucket, fewer than
// at now, rounded up.
func (h *History) until(f *Refill, now, units int64) int64 {
	less, rest := f.Time(units)
	wait := h.End - less - now
	if h.Total > rest {
		wait++
	}
	return wait
}

// Waits returns Wait and Reset of a bucket from which so many units are missing, in one
// step (BenchmarkBucket).
func (h *History) Waits(r *Rule, now, n, missing int64) (wait, reset int64) {
	if missing > 0 {
		reset = h.until(r.Refill, now, 0)
	}
	switch {
	case n > r.Max:
		return Never, reset
	case r.MinInterval > 0:
		wait = max(h.Last+r.MinInterval-now, 0)
	}
	if missing+n > r.Max {
		wait = max(wait, h.until(r.Refill, now, r.Max-n))
	}
	return wait, reset
}

// Pace gives a bucket the rate of the rule at now, and old is its rate so far. The units that
// are missing stay missing, and so does the time that the next one has waited (R12).
func (h *History) Pace(r *Rule, old *Refill, now int64) {
	units := h.Missing(old, now)
	// The next unit has waited for as long as the bucket is ahead of needing it whole.
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
	h.End, h.Total, h.Front, h.log.tail = now+micros, rest, now, place(r.Rate)
}

// SetBucket makes the history, which is Empty, a bucket as another one was: its rate, and
// its End, Total, Front and Last.
func (h *History) SetBucket(rate uint32, end, total, front, last int64) {
	h.End, h.Total, h.Front, h.Last, h.log.tail = end, total, front, last, place(rate)
}
