package memory

import (
	"strings"
	"sync"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/window"
)

// Journal receives every change of a [Memory], so that an engine around it can keep a log.
// Package weirdisk is such an engine.
//
//   - Append is called once for each call that changed something, under the locks of all
//     histories that it changed. So the order of two changes of a history is the order in
//     which they happened. Either all changes of one Append are kept or none.
//   - Append must not block for long and must not call the Memory.
//   - The changes and all they point to are valid during the call only.
//   - [Memory.Apply] of the same changes in the same order makes an empty Memory equal.
type Journal interface {
	Append(changes []Change)
}

// ChangeKind is the kind of a [Change].
//
// An Append, a Replace, a Book and a Cancel also remove the appointments that begin by At. Those
// that still count are entries of the Replace, or have an Append each.
type ChangeKind uint8

const (
	// Append added Units to the history as an entry with an End, or to its newest entry if
	// that does not end earlier. Entries with an End of at most Cutoff were dropped before.
	Append ChangeKind = iota
	// Refund took Units from the entry with an End or, if End is engine.Oldest, from the oldest
	// entries that end after Cutoff.
	Refund
	// Replace changed the history to the given one: a bucket, a correction of the clock
	// (R2), another rate (R12), or a history of a Dump.
	Replace
	// Remove removed the history, and the block of its limit.
	Remove
	// Book added Units to the appointments of the history, which begin at Start (R18). Entries with
	// an End of at most Cutoff were dropped before.
	Book
	// Cancel took Units of the appointment at Start back.
	Cancel
	// Block began a block at At that ends at End, or ended the running one if End is At (R20).
	Block
	// Retain changed no history. From now on those of the limit are kept for longer (R12).
	Retain
	// Remember added an Operation, or changed it: its reservation was settled or extended (R19).
	Remember
)

// Change is one change of one history, or one operation that is remembered. It states the
// outcome: Apply needs no policy and decides nothing. Fields of other kinds are zero.
type Change struct {
	Kind    ChangeKind
	Virtual bool   // the caller passed the instant
	At      int64  // the instant of the decision; of a Replace, that of the newest attempt
	Limit   uint32 // the number of Name in this Memory
	Name    string // names of policy, limit, kind and dimensions, separated by NUL
	Keep    int64  // microseconds for which the histories of the limit are kept

	// Key has the values of the dimensions: a single one as it is, several each behind its length
	// (uvarint).
	Key []byte

	End, Units int64 // Append, Refund: the entry
	Start      int64 // Book, Cancel: the instant at which the use begins
	Cutoff     int64 // Append, Refund, Book: entries that end by then no longer count
	Cap        int64 // Append: the history was cut to so many units (engine.CountDenied), if Capped
	Capped     bool

	// For a Replace. The history of a bucket has no entries (R16): one unit flows in every
	// Window / Max microseconds, in lowest terms. The bucket is full at Full + Part/Max. Units
	// were last taken from a full bucket at Front. Max is 0 for a history with entries.
	Max, Window       int64
	Full, Part, Front int64
	Entries           []Entry // oldest first

	// Ahead are the appointments after a Replace, oldest first. Without any, those after At stay as
	// they are. The End of a Replace, a Book and a Cancel is 0 if the history has no appointments.
	// Otherwise no unit of the history counts one Keep after this End.
	Ahead []Entry

	Operation *Operation // Remember: the operation

	limit *limitRules // the limit of Name, kept by Apply
}

// Entry is one entry of a history: its units count while End > now - Window.
type Entry = window.Entry

// Split returns the names of the policy and the limit, its kind, and the names and values of
// the dimensions. It reports false for a name that no engine makes, or a key that does not
// fit the name.
func (c *Change) Split() (
	policy, limit string, kind engine.Kind, dimensions, values []string, ok bool,
) {
	names := strings.Split(c.Name, "\x00")
	if len(names) < 3 {
		return "", "", 0, nil, nil, false
	}
	for kind = engine.KindRolling; kind.String() != names[2]; kind++ {
		if kind == engine.KindConcurrency {
			return "", "", 0, nil, nil, false
		}
	}
	dimensions = names[3:]
	values, ok = []string{string(c.Key)}, true
	if len(dimensions) != 1 {
		values, ok = keyenc.Values(c.Key)
	}
	return names[0], names[1], kind, dimensions, values, ok && len(values) == len(dimensions)
}

// report is the changes of one call. Reports are reused, because each decision would allocate
// one.
type report struct {
	memory  *Memory
	now     int64
	virtual bool
	changes []Change
}

var reports = sync.Pool{New: func() any { return &report{changes: make([]Change, 0, 1)} }}

// newReport returns an empty report of a call at an instant.
func (m *Memory) newReport(now int64, virtual bool) *report {
	r := reports.Get().(*report)
	r.memory = m
	r.now = now
	r.virtual = virtual
	return r
}

// add adds a change of the limit's history of a key. A Retain concerns all histories of the limit,
// so its key is "". add copies the key.
func (r *report) add(kind ChangeKind, l *limitRules, key string) *Change {
	n := len(r.changes)
	if n == cap(r.changes) {
		r.changes = append(r.changes, Change{})
	}
	r.changes = r.changes[:n+1]
	c := &r.changes[n]
	c.Kind = kind
	c.Virtual = r.virtual
	c.At = r.now
	c.Limit = l.group
	c.Name = l.histories
	c.Keep = r.memory.table.Kept(l.group)
	c.Key = append(c.Key, key...)
	return c
}

// appended adds the change of a history to which units were added, as an entry that ends at
// an instant.
func (r *report) appended(l *limitRules, key string, end, units, cutoff int64) *Change {
	c := r.add(Append, l, key)
	c.End = end
	c.Units = units
	c.Cutoff = cutoff
	return c
}

// replaced adds the whole history. Its clock is that of its newest entries, which a refund in a
// bucket leaves as it is.
func (r *report) replaced(s *record) {
	c := r.add(Replace, s.limit, s.text)
	c.Virtual = s.slot.Virtual()
	r.memory.read(c, s.h, s.arena)
	if a := s.appointments; a != nil && len(a.list.Entries) > 0 {
		if c.End = a.list.Until; a.shifted {
			c.Ahead = a.list.Entries
		}
	}
}

// recordedAhead adds the changes of a history with appointments.
func (r *report) recordedAhead(s *record, mode engine.Mode) {
	a := s.appointments
	isWritten := s.entry.Units > 0 && a.booked == 0 || s.took > 0
	switch {
	case s.corrected, s.rule.Rate != 0 && (isWritten || s.isNew):
		if r.replaced(s); a.shifted {
			return // it has all appointments
		}
	case s.took > 0:
		r.tookBack(s)
	default:
		for i := range a.adds {
			e := &a.adds[i]
			c := r.appended(s.limit, s.text, e.End, e.Units, s.rule.Cutoff(r.now))
			if c.At = e.Now; i == len(a.adds)-1 && a.booked == 0 && mode == engine.CountDenied {
				c.Cap, c.Capped = s.limit.Max, true
			}
		}
	}
	if a.booked > 0 {
		c := r.add(Book, s.limit, s.text)
		c.Start, c.Units = a.start, a.booked
		c.End, c.Cutoff = a.list.Until, s.rule.Cutoff(r.now)
	}
	if a.cancelled > 0 {
		c := r.add(Cancel, s.limit, s.text)
		c.Start, c.Units = a.cancelledAt, a.cancelled
		c.End = a.list.Until
	}
}

// tookBack adds a refund of entries.
func (r *report) tookBack(s *record) {
	c := r.add(Refund, s.limit, s.text)
	c.End = s.refunded
	c.Units = s.took
	c.Cutoff = s.cutoff
}

// corrections adds the histories that were corrected (R2, R12).
func (r *report) corrections(records []record) {
	for i := range records {
		if s := &records[i]; s.corrected {
			r.replaced(s)
		}
	}
}

// recorded adds the histories in which units were recorded, or of which units were taken back.
func (r *report) recorded(records []record, mode engine.Mode) {
	for i := range records {
		s := &records[i]
		if s.appointments != nil {
			r.recordedAhead(s, mode)
			continue
		}
		changed := s.entry.Units > 0 || s.took > 0
		if s.corrected || changed && s.rule.Rate != 0 {
			r.replaced(s)
			continue
		}
		if s.took > 0 {
			r.tookBack(s)
		}
		if s.entry.Units == 0 {
			continue
		}
		end := s.h.End()
		if s.h.Total() == 0 { // cut to nothing
			end = r.now
		}
		c := r.appended(s.limit, s.text, end, s.entry.Units, s.rule.Cutoff(r.now))
		if mode == engine.CountDenied {
			c.Cap, c.Capped = s.limit.Max, true
		}
	}
}

// blocks adds the blocks that were begun, or whose beginning was corrected (R2).
func (r *report) blocks(records []record) {
	for i := range records {
		if s := &records[i]; s.begins || s.redated {
			r.add(Block, s.limit, s.text).End = r.now + s.blocked
		}
	}
}

// remembered adds an operation, which stays on the clock of its first call.
func (r *report) remembered(o *Operation, virtual bool) {
	c := Change{Kind: Remember, Virtual: virtual, At: o.Newest(), Operation: o}
	r.changes = append(r.changes, c)
}

// clear makes c the zero Change, except for its arrays. An Append is cleared field by field,
// which takes a third of the time.
func (c *Change) clear() {
	if c.Key = c.Key[:0]; c.Kind == Append && !c.Capped {
		c.End = 0 // add sets the fields of all kinds
		c.Units = 0
		c.Cutoff = 0
		return
	}
	entries := c.Entries[:0]
	if cap(entries) > mostKept {
		entries = nil
	}
	*c = Change{Key: c.Key, Entries: entries}
}

// mostKept bounds the array of entries that a report keeps.
const mostKept = 1 << 10

// send appends the changes to the journal, if there are any.
func (r *report) send() {
	if len(r.changes) > 0 {
		r.memory.journal.Append(r.changes)
	}
	for i := range r.changes {
		r.changes[i].clear()
	}
	r.memory, r.changes = nil, r.changes[:0]
	reports.Put(r)
}
