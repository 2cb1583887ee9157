package listen

import (
	"errors"
	"os"
	"sync"
	"time"
)

// deadline is the deadline of one direction of a Conn. To pass one to the system takes two
// readings of the clock and a change of a timer. net/http sets seven for each request, and
// a call waits under few of them: together they are a twentieth of the time of a gate call.
// So the system gets a deadline when a call begins, or at once if one is in progress.
//
// The deadline in force is never later than the wanted one. It may be earlier by slack; a
// call that it ends too early continues.
type deadline struct {
	set func(time.Time) error // of the connection; zero = no deadline

	mu    sync.Mutex // protects the following
	want  time.Time
	have  time.Time // in force
	calls int       // in progress
}

// slack is how much earlier than wanted a deadline may be in force.
const slack = time.Second

// change sets the deadline, also of the calls in progress.
func (d *deadline) change(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	if d.calls == 0 {
		return nil
	}
	d.have = t
	return d.set(t)
}

// begin brings the deadline into force for a call, which end must follow after a nil error.
func (d *deadline) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if early := d.want.Sub(d.have); early < 0 || early > slack {
		if d.passedLocked() {
			return os.ErrDeadlineExceeded
		}
		if err := d.set(d.want); err != nil {
			return err
		}
		d.have = d.want
	}
	d.calls++
	return nil
}

// end ends a call with its error, and reports whether the call must continue because the
// deadline was too early.
func (d *deadline) end(err error) (again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls--
	if !errors.Is(err, os.ErrDeadlineExceeded) || d.passedLocked() {
		return false
	}
	d.have = d.want
	return d.set(d.want) == nil
}

// passedLocked reports whether the wanted deadline has passed.
func (d *deadline) passedLocked() bool { return !d.want.IsZero() && !d.want.After(time.Now()) }
