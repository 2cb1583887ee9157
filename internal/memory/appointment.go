package memory

import (
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// Appointments (R18) are entries that are ahead of the newest decision of a history. They stand in
// a list beside the history, which only callers with the lock of its shard find (package keytable).
// So histories without appointments take no room for them, and their decisions look for none.
//
// A decision reads the history and the list as one: those that have begun count as entries of their
// instants, and those ahead count too. An operation that writes the history moves those that have
// begun into it.

// appointments is the list of a record at the instant of a decision.
type appointments struct {
	list *window.Ahead // the stored list, or a copy if the clock was corrected

	begun int   // the entries before this index have begun
	from  int   // those before this index are in the record's history, or no longer count
	units int64 // of the entries from that index on

	// The record's history and list may be copies, which are stored with the decision or dropped.
	shifted   bool // list is a copy with the instants of a corrected clock (R2)
	wasCopied bool // the history was a copy before: its clock was corrected or its rate changed
	copied    bool // the history is a copy that has the entries which have begun
	written   bool // an operation has changed the list or the history
	isNew     bool // the list was made for this booking

	adds []window.Add // entries that have begun, as they will be recorded

	// A booking.
	start  int64 // its instant
	booked int64 // its units; 0 = there is none

	// A cancel.
	place       int   // in the list
	cancelled   int64 // units; 0 = there is none
	cancelledAt int64 // the instant of the appointment
}

// ahead returns the units that are ahead.
func (a *appointments) ahead() int64 {
	return a.units - a.list.Sum(a.from, a.begun)
}

// newest returns the instant of the newest attempt, also of one that is ahead (R5).
func (r *record) newest() int64 {
	if a := r.appointments; a != nil && len(a.list.Entries) > 0 {
		return max(r.h.Last, a.list.Newest())
	}
	return r.h.Last
}

// lookAhead reads the record's list at an instant. If the history was corrected, its list shifts by
// as much.
func (r *record) lookAhead(now, shift int64) {
	a := r.appointments
	if a.shifted = shift != 0; a.shifted {
		a.list = a.list.Shifted(shift)
	}
	a.begun = a.list.Begun(now)
}

// beginBucket takes the units of appointments that have begun from a copy of the record's bucket.
func (r *record) beginBucket(f *window.Refill) {
	a := r.appointments
	if a.begun == 0 {
		return
	}
	if !r.corrected {
		copied := *r.h // a bucket has no entries elsewhere
		r.h = &copied
	}
	a.list.BeginAll(r.h, f, 0, a.begun, r.rule.Refill.MaxExact)
	a.copied = true
}

// measureAhead finds the appointments that count beside the record's history.
func (r *record) measureAhead(now int64) {
	a := r.appointments
	if a.from = a.begun; !a.copied && a.begun > 0 {
		a.from = a.list.Stale(r.h, r.rule, a.begun, now)
	}
	a.units = a.list.Units - a.list.Sum(0, a.from)
}

// addAhead adds the appointments to the state of the record's history.
func (r *record) addAhead() {
	a := r.appointments
	r.state.Used += a.units
	r.state.Last = r.newest()
}

// lookAhead completes what a decision of n units has read of the histories. It returns the least
// room, and whether all minimum intervals have passed.
func (c *claim) lookAhead(n int64) (room int64, open bool) {
	room, open = window.Forever, true
	for i := range c.records {
		r := &c.records[i]
		if r.appointments != nil {
			r.addAhead()
			r.room = r.state.Room(r.rule)
			r.closed = r.blocked > 0 || r.state.IntervalWait(r.rule, c.now) > 0
		}
		room = min(room, r.limit.fitting(r.room, n))
		open = open && !r.closed
	}
	return room, open
}

// queue returns the bucket of the record with its appointments.
func (r *record) queue() window.Queue {
	a := r.appointments
	return window.Queue{
		List:   a.list,
		Bucket: r.h,
		Refill: r.rule.Refill,
		From:   a.from,
		Most:   r.rule.Refill.MaxExact,
		Keeps:  !a.wasCopied && !a.shifted,
	}
}

// countBegun returns the units of appointments that have begun and end after a cutoff.
func (r *record) countBegun(cutoff int64) (units int64) {
	a, newest := r.appointments, r.h.End()
	for _, e := range a.list.Entries[:a.begun] {
		if newest = r.endBehind(newest, e.End); newest > cutoff {
			units += e.Units
		}
	}
	return units
}

// waitFor returns the least wait until n units fit under the record's limit alone (R8).
func (r *record) waitFor(now, n int64) int64 {
	a := r.appointments
	need := r.state.Used + n - r.rule.Max
	if a == nil || n > r.rule.Max || need <= 0 {
		return r.h.Wait(r.arena, r.rule, &r.state, now, n)
	}
	wait := r.state.IntervalWait(r.rule, now)
	if r.rule.Rate != 0 {
		q := r.queue()
		return max(wait, q.Wait(now, r.rule.Max-n))
	}
	used := r.state.Used - a.units
	if need > used {
		i := a.list.Leave(a.from, a.units, need-used)
		return max(wait, r.leaves(i)-now)
	}
	return max(wait, r.h.Leaving(r.arena, r.rule, &r.state, now, need))
}

// leaves returns the instant at which the appointment at a place no longer counts.
func (r *record) leaves(i int) int64 {
	start := r.appointments.list.Entries[i].End
	rule := r.limit.at(start)
	switch {
	case rule.Stop != 0:
		return rule.Stop
	case rule.FromFirst:
		return r.appointments.list.Opened(r.h, rule, i) + rule.Window
	}
	return rule.EndBehind(r.h.End(), start) + rule.Window
}

// resetAfter returns the time until no unit counts.
func (r *record) resetAfter(now int64) int64 {
	a := r.appointments
	switch {
	case a.units == 0:
		return r.h.Reset(r.rule, &r.state, now)
	case r.rule.Rate != 0:
		q := r.queue()
		return q.Reset(now)
	}
	return r.leaves(len(a.list.Entries)-1) - now
}

// nextAfter returns the time until the next unit leaves or flows in.
func (r *record) nextAfter(now int64) int64 {
	a := r.appointments
	switch {
	case r.state.Used > a.units:
		state := r.state
		state.Used -= a.units
		return r.h.Next(r.arena, r.rule, &state, now)
	case a.units == 0:
		return 0
	case r.rule.Rate != 0:
		q := r.queue()
		return q.Next(now)
	}
	return r.leaves(a.from) - now
}

// describeAhead sets the appointments of a limit's state.
func (r *record) describeAhead(to *engine.State, now int64) {
	if a := r.appointments; a.begun < len(a.list.Entries) {
		to.Ahead, to.LastAhead = a.ahead(), span(a.list.Newest()-now)
	}
}

// plan finds the first instant at which an attempt of n units fits (R18). It reports false if the
// call does not wait for so long.
func (c *claim) plan(n, maxWait int64) (start int64, waits bool) {
	wait := int64(0)
	for i := range c.records {
		r := &c.records[i]
		wait = max(wait, r.waitFor(c.now, r.limit.units(n)))
	}
	if wait > maxWait || c.now+wait > engine.MaxInstant { // maxWait is below Never
		return 0, false
	}
	return c.now + wait, true
}

// prepareAhead makes room for the appointments of a record that have begun, for the entry of now,
// and for one that is booked.
func (m *Memory) prepareAhead(c *claim, r *record) bool {
	if c.start > 0 {
		list := r.shard.ReserveAhead(&m.table, r.slot)
		if list == nil {
			return false
		}
		if r.appointments == nil {
			r.appointments = &appointments{list: list, isNew: true}
		}
	}
	a := r.appointments
	a.written = true
	if r.rule.Rate != 0 {
		r.corrected = r.corrected || a.copied
		return true
	}
	newest := r.h.End()
	for i, e := range a.list.Entries[:a.begun] {
		if newest = r.endBehind(newest, e.End); i >= a.from {
			a.add(r, newest, e)
		}
	}
	if c.start == 0 {
		a.add(r, r.endBehind(newest, c.now), window.Entry{End: c.now, Units: r.entry.Units})
	}
	return r.h.GrowFor(r.arena, a.adds, r.rule.Cutoff(c.now), r.rule.Narrow)
}

// add adds an entry of an instant, e.End, that will be recorded with another end.
func (a *appointments) add(r *record, end int64, e window.Entry) {
	a.adds = append(a.adds, window.Add{
		End:    end,
		Now:    e.End,
		Units:  e.Units,
		Narrow: r.rule.Narrow,
	})
}

// endBehind returns the end of units that are recorded at an instant, behind a newest end.
func (r *record) endBehind(newest, at int64) int64 {
	return r.limit.at(at).EndBehind(newest, at)
}

// undoAhead removes a list that prepareAhead has made.
func (m *Memory) undoAhead(r *record) {
	if a := r.appointments; a != nil && a.isNew {
		r.shard.KeepAhead(&m.table, r.slot)
		r.appointments = nil
	}
}

// recordAhead records the appointments of a record that have begun, the entry of now, and one that
// is booked.
func (m *Memory) recordAhead(c *claim, r *record, denied bool) {
	a := r.appointments
	switch {
	case r.rule.Rate == 0:
		r.h.RecordAll(r.arena, a.adds, r.rule.Cutoff(c.now), c.now)
		if c.start == 0 && c.rules.mode == engine.CountDenied {
			r.h.Cap(r.arena, r.limit.Max)
		}
	case c.start == 0:
		r.take(c.now, denied)
		a.list.Forget()
	default:
		if r.h.Rate() == 0 { // a new one
			r.h.SetBucket(r.rule.Rate, c.now, 0, c.now, c.now)
		}
		r.h.Last = c.now
	}
	a.drop()
	if c.start > 0 {
		a.start, a.booked = c.start, r.entry.Units
		a.list.Book(a.start, a.booked)
		if r.rule.Rate != 0 {
			a.list.Extend(r.h, r.rule.Refill, a.start, a.booked, r.rule.Refill.MaxExact)
		}
	}
	m.keepAhead(r)
	r.state = r.h.Look(r.arena, r.rule, c.now)
	r.measureAhead(c.now)
	r.addAhead()
}

// drop removes the appointments that the history has as entries.
func (a *appointments) drop() {
	a.list.Drop(a.begun)
	a.begun, a.from = 0, 0
	a.copied = false
}

// keepAhead sets Until of the record's list, or removes an empty list. An entry of now moves Until
// in a bucket only: otherwise the journal has it as an Append, which states no Until.
func (m *Memory) keepAhead(r *record) {
	a := r.appointments
	switch {
	case !r.shard.KeepAhead(&m.table, r.slot):
		a.list = &window.Ahead{}
	case r.rule.Rate != 0:
		a.measureAll()
		q := r.queue()
		a.list.Until = max(q.Full(), a.list.Newest())
	case a.booked > 0 || a.cancelled > 0 || r.corrected:
		newest := a.list.Newest()
		a.list.Until = max(newest, r.limit.at(newest).End(newest), r.h.End())
	}
	r.markBeside()
}

// measureAll counts all appointments, which are ahead.
func (a *appointments) measureAll() { a.from, a.units = 0, a.list.Units }

// markBeside sets or clears the flag of a slot with a block or appointments.
func (r *record) markBeside() {
	waits := r.appointments != nil && len(r.appointments.list.Entries) > 0
	r.slot.SetBlocked(r.block != nil || waits)
}

// mustCopy reports whether a refund must change copies of all histories, because storing them can
// fail: one is a copy already, or needs room for appointments that have begun or for its instant.
func (c *claim) mustCopy() bool {
	for i := range c.records {
		r := &c.records[i]
		if a := r.appointments; r.corrected || a != nil && (a.begun > 0 || !r.h.MayMove(c.now)) {
			return true
		}
	}
	return false
}

// copyBegun adds the appointments that have begun to the record's history, which is a copy.
func (r *record) copyBegun() {
	a := r.appointments
	if a.copied || a.begun == 0 || r.rule.Rate != 0 {
		return
	}
	newest, more := r.h.End(), []window.Entry(nil)
	for _, e := range a.list.Entries[:a.begun] {
		newest = r.endBehind(newest, e.End)
		more = append(more, window.Entry{End: newest, Units: e.Units})
	}
	r.h.Append(r.arena, more, max(r.h.Last, a.list.Entries[a.begun-1].End))
	a.copied = true
}

// cancel takes units of the appointment at an instant back, if it is ahead (isAhead). A limit with
// a cost gives back the cost, but only if whole: nothing of the appointment will be used.
func (r *record) cancel(at, n, now int64, whole bool) (took int64, isAhead bool) {
	a := r.appointments
	if a == nil {
		return 0, false
	}
	i, found := a.list.Find(at)
	if !found || i < a.begun {
		return 0, false
	}
	if r.limit.cost > 0 && !whole {
		return 0, true
	}
	took = min(r.limit.units(n), a.list.Entries[i].Units)
	if took > 0 {
		a.place, a.cancelledAt = i, at
		a.cancelled = took
		r.h.MoveLast(r.arena, now)
	}
	return took, true
}

// dropUnchanged marks the copies of histories that the operation left alone, so that they are not
// stored.
func (c *claim) dropUnchanged() {
	for i := range c.records {
		r := &c.records[i]
		if a := r.appointments; a != nil && r.took == 0 && a.cancelled == 0 {
			r.corrected = a.wasCopied
		}
	}
}

// storeAhead changes the stored list of a record whose history was written. Entries that have begun
// are removed, those of a corrected clock shift, and those of a cancel are taken back.
func (m *Memory) storeAhead(r *record) {
	a := r.appointments
	stored := r.shard.Ahead(r.slot)
	if stored == nil { // made for this booking
		return
	}
	if a.shifted {
		copy(stored.Entries, a.list.Entries)
	}
	if a.list = stored; a.wasCopied || r.took > 0 {
		stored.Forget()
	}
	if a.written {
		return // recordAhead does the rest
	}
	if a.cancelled > 0 {
		stored.Cancel(a.place, a.cancelled)
	}
	if a.copied {
		a.drop()
	}
	m.keepAhead(r)
}
