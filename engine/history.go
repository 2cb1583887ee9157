package engine

// MaxEntries bounds the Entries and the appointments of a [History].
const MaxEntries = 1000

// History is the units that one limit holds for a key at the instant of a Peek, for an operator
// ([Call].Histories). Instants are microseconds since 1970.
//
//   - The histories and the Result of a call are those of one step, at one instant. The units of
//     Entries and Ahead, with those that are left off, are the Used of the limit's State. The units
//     of Entries equal a Count of the whole window. A bucket has no Entries.
//   - Reading a history changes nothing: no entry is dropped, corrected or swept, and no expiry is
//     renewed.
type History struct {
	// Entries are the newest MaxEntries that count, oldest first. An entry of a fixed window stands
	// at the beginning of its window, and one of a cell at the end of the cell. Under a concurrency
	// limit an entry is a hold; the holds of one instant are separate if the engine knows their
	// reservations.
	Entries []Entry
	Older   int64 // entries that count and are left off

	Ahead []Entry // the first MaxEntries appointments (R18), oldest first
	Later int64   // appointments that are left off

	// Start and End are the open window of a KindFixed or a KindFixedFromFirst limit: its first
	// instant, and the first one behind it. Both are 0 if no window is open, and for other kinds.
	Start, End int64
}

// Entry is the units that a history has at one instant.
type Entry struct {
	At    int64  // microseconds since 1970
	Units int64  // above 0
	ID    string // the reservation of a hold of the same key, if the engine knows it; "" otherwise
}
