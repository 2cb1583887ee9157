package weirdisk

import (
	"fmt"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// Item is one stored history, one block if BlockedUntil is not 0, or one operation with an
// idempotency key if ID is not "". Instants are microseconds since 1970. The fields that a kind of
// item lacks are zero.
type Item struct {
	Policy     string
	Dimensions []string // names of the values, sorted
	Values     []string // values of the dimensions, of arbitrary bytes

	Limit   string      // name of the limit of a history or a block
	Kind    engine.Kind // kind of the limit
	Newest  int64       // instant of the newest attempt, or of the beginning of a block
	Entries []Entry     // units that count, oldest first; a KindBucket has none

	Ahead []Entry // appointments, oldest first: units that begin to count later, At their instant

	BlockedUntil int64 // instant at which a block ends

	// A KindBucket refills by Max units per Window, in lowest terms, and is full at the instant
	// Full, rounded down. Window is in microseconds.
	Max, Window, Full int64

	ID      string    // idempotency key, of arbitrary bytes
	Op      engine.Op // engine.Attempt, engine.Record or engine.Refund
	Units   int64     // units of the request
	Granted int64     // units granted, recorded or taken back
	At      int64     // instant of the decision
	Start   int64     // instant at which the use of the granted units begins, if that is later
	Until   int64     // instant at which the operation is forgotten

	// A reservation has all its granted units, and the end of its life.
	Reserved  int64
	ExpiresAt int64
	Settled   bool
	Actual    int64 // units of the settlement
}

// Entry is some units of a history. They leave a window after the instant At: that of their
// grant, or one that all units of a cell or a fixed window have in common.
type Entry struct{ At, Units int64 }

// Dump calls each with everything that counts in a directory that is not in use, and
// changes nothing. It stops at the first error of each and returns it. Dump's other errors are
// those of Check, and that of a name that no engine writes.
func Dump(dir string, each func(*Item) error) error {
	_, err := visit(dir, func(c *memory.Change) error {
		i, err := newItem(c)
		if err != nil {
			return err
		}
		return each(i)
	})
	return err
}

// newItem returns a copy of a history, a block or an operation.
func newItem(c *memory.Change) (*Item, error) {
	i, ok := &Item{}, false
	if o := c.Operation; o != nil {
		if i.Policy, i.Dimensions, i.Values, i.ID, ok = o.Split(); !ok {
			return nil, fmt.Errorf("weirdisk: an operation has the name %q, which no engine writes",
				o.Name)
		}
		i.Op, i.Units = o.Op, o.Asked
		i.Granted, i.At = o.Granted, o.At
		if start := o.Start(); start > o.At {
			i.Start = start
		}
		i.Until = o.Until
		if r := o.Reservation; r != nil {
			i.Reserved, i.ExpiresAt = o.Reserved(), r.Expires
			if i.Settled = r.Settled(); i.Settled {
				i.Actual = r.Actual
			}
		}
		return i, nil
	}
	i.Policy, i.Limit, i.Kind, i.Dimensions, i.Values, ok = c.Split()
	if !ok {
		return nil, fmt.Errorf("weirdisk: the history of %q has a key that does not fit its name",
			c.Name)
	}
	i.Newest = c.At
	if c.Kind == memory.Block {
		i.BlockedUntil = c.End
		return i, nil
	}
	i.Max = c.Max
	i.Window = c.Window
	i.Full = c.Full
	for _, e := range c.Entries {
		i.Entries = append(i.Entries, Entry{At: e.End, Units: e.Units})
	}
	for _, e := range c.Ahead {
		i.Ahead = append(i.Ahead, Entry{At: e.End, Units: e.Units})
	}
	return i, nil
}
