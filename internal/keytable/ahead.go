package keytable

import "github.com/weirlimit/weir/internal/window"

// Appointments (R18) stand in a list beside the slot of their history, because few histories have
// any. The list is read and written under the lock of its shard alone. The slot of the history has
// the flag of a block while there is a list. So no caller finds the slot without the lock of the
// shard, and callers of other keys never look for appointments.

// ahead is the appointments of a history, in memory that was counted.
type ahead struct {
	window.Ahead
	room int // entries for which memory was counted
}

// identity names a slot in its shard, wherever it moves: its key, or the run of a long one.
type identity struct{ state, lo, hi uint64 }

func (slot *Slot) identity() identity {
	return identity{slot.state.Load() &^ (locked | virtual | blocked), slot.lo, slot.hi}
}

// The bytes of a list without entries, with its place in the map, and of an entry.
const (
	aheadBytes      = 192
	aheadEntryBytes = 16
)

// Ahead returns the appointments of a slot, or nil if it has none. The shard is locked.
func (s *Shard) Ahead(slot *Slot) *window.Ahead {
	if len(s.ahead) == 0 || !slot.Blocked() {
		return nil
	}
	if list := s.ahead[slot.identity()]; list != nil {
		return &list.Ahead
	}
	return nil
}

// ReserveAhead returns the appointments of a slot with room for another one, or nil if there is no
// room. The slot and its shard are locked. The caller sets Blocked when it books, or removes the
// empty list.
func (s *Shard) ReserveAhead(t *Table, slot *Slot) *window.Ahead {
	list := s.ahead[slot.identity()]
	if list == nil {
		if !t.TakeAbove(s.Arena.Spare, aheadBytes) {
			return nil
		}
		if s.ahead == nil {
			s.ahead = map[identity]*ahead{}
		}
		list = new(ahead)
		s.ahead[slot.identity()] = list
	}
	n := len(list.Entries)
	if n < cap(list.Entries) {
		return &list.Ahead
	}
	room := n + n/2 + 4
	if !t.TakeAbove(s.Arena.Spare, aheadEntryBytes*room) {
		s.removeEmpty(t, slot, list)
		return nil
	}
	t.Give(aheadEntryBytes * list.room)
	list.Entries = append(make([]window.Entry, 0, room), list.Entries...)
	list.room = room
	return &list.Ahead
}

// removeEmpty removes a list without entries.
func (s *Shard) removeEmpty(t *Table, slot *Slot, list *ahead) {
	if len(list.Entries) > 0 {
		return
	}
	t.Give(aheadBytes + aheadEntryBytes*list.room)
	if delete(s.ahead, slot.identity()); len(s.ahead) == 0 {
		s.ahead = nil
	}
}

// KeepAhead removes the list of a slot if it has no entries, and reports whether a list is left.
// The slot and its shard are locked.
func (s *Shard) KeepAhead(t *Table, slot *Slot) bool {
	list := s.ahead[slot.identity()]
	if list == nil {
		return false
	}
	s.removeEmpty(t, slot, list)
	return len(list.Entries) > 0
}

// RemoveAhead removes the appointments of a slot, if it has any.
func (s *Shard) RemoveAhead(t *Table, slot *Slot) {
	if list := s.ahead[slot.identity()]; list != nil {
		list.Entries = nil
		s.removeEmpty(t, slot, list)
	}
}

// Lists is the number of histories with appointments. The shard is locked.
func (s *Shard) Lists() int { return len(s.ahead) }
