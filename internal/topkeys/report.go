package topkeys

import (
	"cmp"
	"slices"
	"time"
)

// Entry is a key and how often it was denied.
type Entry struct {
	Values  []string // in the order of the policy's dimensions; hashes, if the sketch is of those
	Clipped bool     // a value is longer than what is shown of it
	Denials int64    // never too few
	Error   int64    // Denials may be too many by this
}

// Report is what a sketch holds.
type Report struct {
	Since   time.Time // from when on it counts; zero if nothing was denied
	Denials int64     // of all keys
	Top     []Entry   // first those that were surely denied most
}

// Surely is how often the key was denied at least.
func (e *Entry) Surely() int64 { return e.Denials - e.Error }

// Top returns the n keys denied most in the present period and the one before, as of
// now. They are ranked by what is sure of them: when a million keys are denied once
// each, the counters that they pass around say thousands, all but one of it error.
func (s *Sketch) Top(n int, now time.Time) Report {
	var r Report
	for i := range s.parts {
		s.parts[i].report(&r, now, s.slots)
	}
	slices.SortStableFunc(r.Top, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Surely(), a.Surely()), cmp.Compare(b.Denials, a.Denials), slices.Compare(a.Values, b.Values))
	})
	r.Top = r.Top[:min(max(n, 0), len(r.Top))]
	return r
}

// report adds what the stripe holds.
func (p *stripe) report(r *Report, now time.Time, slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began == 0 {
		return
	}
	p.turn(now.UnixMicro())
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
	for i := range p.now.heap {
		c := &p.now.heap[i]
		n, err, _ := p.before.bounds(c.id, slots)
		r.add(c, n, err)
	}
	for i := range p.before.heap {
		c := &p.before.heap[i]
		if n, err, known := p.now.bounds(c.id, slots); !known {
			r.add(c, n, err)
		}
	}
}

// add adds a counter, and what the other period says of its key.
func (r *Report) add(c *counter, n, err int64) {
	e := Entry{Denials: c.n + n, Error: c.err + err}
	e.Values, e.Clipped = values(c.text)
	r.Top = append(r.Top, e)
}
