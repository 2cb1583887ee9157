package listen

import (
	"os"
	"sync"
	"time"
)

// slack bounds how much later than wanted a deadline fires.
const slack = 100 * time.Millisecond

// deadline is the read or the write deadline of a connection. It fires at the wanted instant or
// less than slack later, never earlier. In that time it can still be replaced.
//
// A connection of the system reads the clock and changes a timer for each deadline that it gets,
// and net/http sets eight for each request. So the system gets a deadline only when a call begins,
// or immediately while one is in progress. It gets none while it has one that is later by less
// than slack. BenchmarkDeadlines compares both ways.
type deadline struct {
	set func(time.Time) error // sets that of the system; the zero time is none

	mu    sync.Mutex // protects the following
	want  time.Time
	have  time.Time // that of the system
	calls int       // in progress
}

// change replaces the deadline, also that of the calls in progress.
func (d *deadline) change(t time.Time) (err error) {
	d.mu.Lock()
	d.want = t
	if d.calls > 0 {
		err = d.applyLocked()
	}
	d.mu.Unlock()
	return err
}

// begin brings the deadline into force for a call, which ends with end. After an error no call
// begins.
func (d *deadline) begin() error {
	d.mu.Lock()
	err := d.applyLocked()
	if err == nil {
		d.calls++
	}
	d.mu.Unlock()
	return err
}

// end ends a call.
func (d *deadline) end() {
	d.mu.Lock()
	d.calls--
	d.mu.Unlock()
}

// applyLocked gives the deadline to the system, unless that has it or a slightly later one. A call
// that begins after its deadline needs no system: applyLocked returns its error.
func (d *deadline) applyLocked() error {
	if late := d.have.Sub(d.want); late >= 0 && late < slack {
		return nil
	}
	if d.want.IsZero() {
		d.have = d.want
		return d.set(d.have)
	}
	left := time.Until(d.want)
	if left <= 0 && d.calls == 0 {
		return os.ErrDeadlineExceeded
	}
	d.have = d.want
	if left > slack {
		d.have = d.want.Add(slack - 1) // it also serves the slightly later ones that follow
	}
	return d.set(d.have)
}
