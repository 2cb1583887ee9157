// Package memory is the engine in memory: histories of keys in one process. Package weir
// offers it as weir.Memory, and package weirdisk keeps a log of its changes.
//
// # Words
//
// A history is the entries of one key under one limit, or its bucket. It stands in a slot of a
// keytable.Table, whose shards have a lock each. An entry has units and an End: they count while
// End > now - Window. The arithmetic on one history is in package window, so no window is computed
// here. Rules are the limits of a policy in the form of this engine.
//
// An appointment is an entry that begins later (R18). An operation is a call with an idempotency
// key, remembered with its answer (R15) and with the reservation that it opened, if any (R19). A
// call is virtual if its caller passed the instant. To hold a history or a shard is to have its
// lock. The hold of a reservation is something else: its units of a concurrency limit (R17).
//
// The comments cite rules of docs/semantics.md, such as R2: a decision is never before the newest
// one of its histories. If that is a second or more ahead of the clock, the clock was corrected.
// Then the decision works on a copy of the history, whose entries of the future are entries of now.
//
// # The path of a decision
//
// A call takes the first of three paths that can decide it:
//
//  1. allowFast (decide.go) decides the commonest attempt: one exact rolling window, one value, a
//     key that has a history. It takes the lock of the slot alone.
//  2. tryHold (claim.go) locks the slots of all limits, in one order, and decideHeld decides.
//  3. hold (claim.go) also locks the shards of all keys. Only then a key can be inserted or removed,
//     and a block or an appointment be found.
//
// A claim is the histories of a call while it holds them: a record for each limit. decideHeld reads
// all records, decides, and then writes all or none (R7). record.go makes room for the new entries
// before it writes the first one.
//
// The wait after a denial has two places. answer (decide.go) takes the longest of all records, by
// History.Wait of package window or, with appointments, by waitFor (appointment.go). allowFast
// computes that of its one limit itself.
//
// # Files
//
// decide.go, claim.go and record.go have the path above. ops.go has refund, count and reset,
// reservation.go settlements and extensions, block.go blocks, and appointment.go attempts that
// wait. rules.go compiles the rules. once.go finds and remembers operations, which operation.go
// describes. journal.go states changes for a log, and apply.go makes the changes of a log again.
// inspect.go copies histories for a reader.
package memory

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/rulecache"
)

// Memory is the embedded engine: exact histories in the memory of this process.
//
// It starts no goroutine. Its clock is monotonic: setting the machine's clock changes
// nothing. Each key has a lock of its own, so callers with different keys seldom wait for each
// other. A decision over several limits locks their histories in one order and acts on all or
// none.
//
// With many keys, a key with one entry takes 75 to 110 bytes, its own 16 bytes included, and one
// with ten entries about 140. A further entry takes 4 to 9 bytes, and up to 17 if it has many
// units. The upper numbers are for entries of several units, windows longer than an hour, and the
// mode CountDenied. An appointment takes about 20 bytes, and the list of a key 200 (R18).
//
// Every fourth new key, and one in a few dozen other recordings, sweeps: it looks at a few
// histories and removes those that no longer count. Peeks and denials remove none. MaxKeys and
// MaxBytes never remove a history that still counts: at the cap, recordings that need more
// room are rejected with engine.ErrFull (R13).
//
// Histories recorded at instants that the caller passed (Limiter.At) live in their own
// time. Only recordings at such instants remove them, an hour of that time after they
// stopped counting.
//
// The histories of a limit are kept for the longest window that the limit ever had on
// this engine: a shortened window frees memory as slowly as before (R12). A bucket is kept
// until it is full. The rate of every bucket is remembered, in about 100 bytes.
//
// A nil Memory is empty. It decides nothing: the engines around it return an error.
type Memory struct {
	table keytable.Table // first, so that its shards begin on cache lines

	start                   time.Time // with a monotonic reading
	base                    int64     // start in microseconds since 1970
	seed                    maphash.Seed
	fullOfKeys, fullOfBytes error

	journal    Journal // nil, or receives every change
	rates      rates   // the rates of buckets
	rules      rulecache.Cache[Rules]
	operations operations   // decisions with an idempotency key
	reclaim    sync.Mutex   // held by the caller that makes room at a cap
	reclaimed  atomic.Int64 // histories and operations removed at a cap so far
	rejected   atomic.Int64 // attempts and records rejected at a cap so far
}

// Options are the caps of a Memory, 0 for none, and its journal, nil for none.
type Options struct {
	// MaxKeys caps the number of keys, counted once for each limit they have a history in,
	// and of operations with an idempotency key. At the cap new ones are rejected.
	MaxKeys int64

	// MaxBytes caps the bytes of all histories, keys, operations and tables together. At
	// the cap new keys are rejected, and so are further entries of known keys that need
	// more. The process holds a few percent more, for pages that were freed and not yet
	// collected.
	MaxBytes int64

	Journal Journal
}

// New returns an empty memory engine.
func New(o Options) *Memory {
	m := &Memory{start: time.Now(), seed: maphash.MakeSeed(), journal: o.Journal}
	m.base = m.start.UnixMicro()
	m.table.Init()
	m.SetCaps(o.MaxKeys, o.MaxBytes)
	return m
}

// SetCaps sets MaxKeys and MaxBytes, 0 for none. The error is engine.ErrFull if m holds more
// already, or with refunds and settlements an eighth more. Call it before the first decision.
func (m *Memory) SetCaps(keys, bytes int64) error {
	held := int64(m.Len())
	m.table.SetCaps(keys, bytes, held)
	// The errors are made in advance: a flood of new keys at a cap must not fill the heap.
	m.fullOfKeys = fmt.Errorf("%w: its MaxKeys, %d, leave no room for the keys of the call, "+
		"one for each limit, and all that it holds still count; "+
		"raise the cap, or wait if the call alone would fit",
		engine.ErrFull, keys)
	m.fullOfBytes = fmt.Errorf("%w: it holds as many bytes as its MaxBytes, %d, allow, "+
		"and all keys still count; wait, or raise the cap",
		engine.ErrFull, bytes)
	spareKeys, spareBytes := int64(0), int64(0)
	if m.operations.mayExceed() {
		spareKeys, spareBytes = m.spareKeys(), m.spareBytes()
	}
	switch {
	case keys > 0 && held > keys+spareKeys:
		return fmt.Errorf("%w: %d keys still count, and MaxKeys is %d; raise the cap",
			engine.ErrFull, held, keys)
	case bytes > 0 && m.Bytes() > bytes+spareBytes:
		return fmt.Errorf("%w: the keys that still count take %d bytes, and MaxBytes is %d; "+
			"raise the cap", engine.ErrFull, m.Bytes(), bytes)
	}
	return nil
}

// Stats returns the memory in use and its caps.
func (m *Memory) Stats() engine.MemoryStats {
	keys, bytes := m.Caps()
	return engine.MemoryStats{
		Keys:     int64(m.Len()),
		Bytes:    m.Bytes(),
		MaxKeys:  keys,
		MaxBytes: bytes,
		Rejected: m.Rejected(),
	}
}

// Len is the number of keys held, idle ones included, and of operations with an idempotency
// key. A key counts once for each limit that it has a history in.
func (m *Memory) Len() int {
	if m == nil {
		return 0
	}
	return m.table.Len() + m.operations.len()
}

// Bytes is the memory of histories, keys, operations and tables.
func (m *Memory) Bytes() int64 {
	if m == nil {
		return 0
	}
	return m.table.Bytes()
}

// Caps are MaxKeys and MaxBytes, 0 for no cap.
func (m *Memory) Caps() (keys, bytes int64) {
	if m == nil {
		return 0, 0
	}
	return m.table.Caps()
}

// Rejected is the number of attempts and records rejected with engine.ErrFull so far.
func (m *Memory) Rejected() int64 {
	if m == nil {
		return 0
	}
	return m.rejected.Load()
}

// Sweep removes all histories and operations that no longer count on the engine's clock,
// a slice of a shard at a time, and returns their number. Calling it is optional:
// recordings sweep a little each. It is for programs that want their memory back while
// no units are recorded.
func (m *Memory) Sweep() (removed int) {
	if m == nil {
		return 0
	}
	now := m.now()
	return m.table.Sweep(now) + m.operations.removeOver(m, now)
}

// maxTries bounds how often one call makes room at a cap and is decided again.
const maxTries = 16

// makeRoom removes histories and operations that no longer count, those in a set of shards first.
// It reports whether another try may find room. That is so, too, if another caller has removed some
// since the last try: m.reclaimed was before then. The caller may hold the lock of one operation
// shard, and no other.
func (m *Memory) makeRoom(shards uint64, at moment, before int64) bool {
	now, virtual := m.instant(at), at.virtual()
	m.reclaim.Lock()
	defer m.reclaim.Unlock()
	if m.reclaimed.Load() != before {
		return true
	}
	removed := m.table.Reclaim(shards, now, virtual) + m.operations.removeSome(m, now, virtual)
	m.reclaimed.Add(int64(removed))
	return removed > 0
}
