package calls

import (
	"errors"
	"sync/atomic"
)

// ErrBusy rejects a request beyond a [Capacity].
var ErrBusy = errors.New("weir: too many requests in flight")

// Capacity bounds how many requests are in flight at once. Further requests are
// rejected immediately: a queue would add its length to every answer, while callers
// time out and retry. Requests that are still being received take no place, so slow
// clients cannot fill it.
type Capacity struct {
	max      int64
	inFlight atomic.Int64
	rejected atomic.Int64
}

// NewCapacity returns a capacity of n requests.
func NewCapacity(n int) *Capacity { return &Capacity{max: int64(n)} }

// Enter takes a place, or returns [ErrBusy]. After a nil error, Leave must follow.
func (c *Capacity) Enter() error {
	if c.inFlight.Add(1) <= c.max {
		return nil
	}
	c.inFlight.Add(-1)
	c.rejected.Add(1)
	return ErrBusy
}

// Leave returns a place.
func (c *Capacity) Leave() { c.inFlight.Add(-1) }

// InFlight returns how many places are taken.
func (c *Capacity) InFlight() int64 { return c.inFlight.Load() }

// Rejected returns how many requests found no place.
func (c *Capacity) Rejected() int64 { return c.rejected.Load() }

// Reject counts a request that is rejected for want of another resource.
func (c *Capacity) Reject() { c.rejected.Add(1) }
