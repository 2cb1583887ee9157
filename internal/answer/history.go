package answer

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// WriteHistories writes the members of the answer to a peek with what the engine holds for its key:
// the decision, the sentence, and each limit with its state and its history. Instants have all
// microseconds, and every number is exact. name returns the text of a reservation with an id.
//
// room_at is the first instant at which the units fit, of the policy and of each limit alone; it is
// missing if they never do.
func (a *Answer) WriteHistories(
	j *JSON, by *Applied, histories []engine.History, name func(id string) string,
) {
	d := &a.Decision
	if by.Shadow { // the history binds the decision that is not enforced
		d = &by.Would
	}
	j.String("policy", a.Compiled.Name)
	j.Object("key")
	for i, dimension := range a.Compiled.Dimensions {
		j.Pair(dimension, a.Key.Value(i))
	}
	j.EndObject()
	j.Instant("at", d.At)
	j.Bool("allowed", a.Decision.Allowed)
	j.String("limit", d.Limit)
	writeRoomAt(j, d.At, d.RetryAfter)
	by.WriteMembers(j)
	a.writeWhy(j, by)
	j.Array("limits")
	for i := range histories {
		j.Object("")
		a.writeLimit(j, i)
		a.writeHistory(j, d.At, i, &histories[i], name)
		j.EndObject()
	}
	j.EndArray()
}

// writeRoomAt writes the instant at which units fit after a wait, unless that is never.
func writeRoomAt(j *JSON, at time.Time, wait time.Duration) {
	if wait != weir.Never {
		j.Instant("room_at", at.Add(wait))
	}
}

// writeHistory writes the members of a limit's history at an instant.
func (a *Answer) writeHistory(
	j *JSON, at time.Time, i int, h *engine.History, name func(id string) string,
) {
	s, l := &a.States[i], &a.Compiled.Limits[i]
	writeRoomAt(j, at, s.RetryAfter)
	if s.Blocked > 0 {
		j.Instant("blocked_until", at.Add(s.Blocked))
	}
	if h.End > 0 {
		j.Instant("window_start", time.UnixMicro(h.Start))
		j.Instant("window_end", time.UnixMicro(h.End))
	}
	if Holds(l.Kind) {
		j.Array("entries")
		j.EndArray()
		writeEntries(j, "holds", h.Entries, h.Older, func(e *engine.Entry) {
			j.Instant("until", time.UnixMicro(e.At+l.Window))
			if e.ID != "" {
				j.String("reservation", name(e.ID))
			}
		})
	} else {
		writeEntries(j, "entries", h.Entries, h.Older, func(*engine.Entry) {})
		j.Array("holds")
		j.EndArray()
	}
	writeEntries(j, "appointments", h.Ahead, h.Later, func(*engine.Entry) {})
}

// writeEntries writes an array of entries, and the number of those that were left off. more writes
// further members of an entry.
func writeEntries(
	j *JSON, name string, entries []engine.Entry, leftOff int64, more func(*engine.Entry),
) {
	j.Array(name)
	for i := range entries {
		e := &entries[i]
		j.Object("")
		j.Instant("at", time.UnixMicro(e.At))
		j.Int("n", e.Units)
		more(e)
		j.EndObject()
	}
	j.EndArray()
	if leftOff > 0 {
		j.Int(name+"_left_off", leftOff)
	}
}
