package topkeys

import (
	"cmp"
	"slices"
	"time"
)

// Entry is a key with its denials.
type Entry struct {
	Values  []string // in the order of the policy's dimensions; hashes in form Hashed
	Clipped bool     // a value is longer than shown
	Denials int64    // never too low
	Error   int64    // the most by which Denials is too high
}

// Report is the content of a sketch.
type Report struct {
	Since   time.Time // the beginning of the count; zero without a denial
	Denials int64     // of all keys
	Top     []Entry   // by MinDenials, the highest first
}

// MinDenials returns the least number of denials of the key.
func (e *Entry) MinDenials() int64 { return e.Denials - e.Error }

// Top returns the n keys that were denied most in the current period and the one before,
// as of now. It ranks them by MinDenials: when a million keys are denied once each, their
// shared counters reach thousands, of which all but one is error.
func (s *Sketch) Top(n int, now time.Time) Report {
	var r Report
	for i := range s.parts {
		s.parts[i].report(&r, now, s.slots)
	}
	slices.SortStableFunc(r.Top, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.MinDenials(), a.MinDenials()), cmp.Compare(b.Denials, a.Denials), slices.Compare(a.Values, b.Values))
	})
	r.Top = r.Top[:min(max(n, 0), len(r.Top))]
	return r
}

// report adds the counters of the stripe to r.
func (p *stripe) report(r *Report, now time.Time, slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began == 0 {
		return
	}
	p.rotate(now.UnixMicro())
	began := p.began
	if p.before.total > 0 {
		began -= period.Microseconds()
	}
	if total := p.now.total + p.before.total; total > 0 {
		r.Denials += total
		if since := time.UnixMicro(began); r.Since.IsZero() || since.Before(r.Since) {
			r.Since = since
		}
	}
	for i := range p.now.all {
		c := &p.now.all[i]
		n, err, _ := p.before.bounds(c.id, slots)
		r.add(c, n, err)
	}
	for i := range p.before.all {
		c := &p.before.all[i]
		if n, err, known := p.now.bounds(c.id, slots); !known {
			r.add(c, n, err)
		}
	}
}

// add adds a counter, and the count and error of its key in the other period.
func (r *Report) add(c *counter, n, err int64) {
	e := Entry{Denials: c.n + n, Error: c.err + err}
	e.Values, e.Clipped = values(c.text)
	r.Top = append(r.Top, e)
}
