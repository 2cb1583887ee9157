package weir

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is the embedded engine: exact histories in the memory of this process.
//
// It starts no goroutine. Its clock is monotonic: stepping the machine's wall
// clock changes nothing. Keys are spread by a hash with a random seed over
// shards with a lock each, so that callers with different keys seldom wait for
// each other; a decision over several limits locks their shards in one order
// and acts on all or none.
//
// A key with one entry takes about 64 bytes, a further one 4 to 9. Every new key, and
// one in a few dozen other recordings, looks at a few histories and forgets those that
// no longer count; peeks and refusals forget none. A cap, by MaxKeys or MaxBytes, never
// forgets a history that still counts: at the cap, recordings that need more room are
// refused with ErrFull (R13).
//
// Histories recorded at instants the caller passed (Limiter.At) live in their
// own time: only recordings at such instants forget them, an hour of that time
// after they stopped counting.
//
// A limit's histories are kept for the longest window it ever had on this engine: a
// window that was shortened gives memory back as slowly as before (R12).
type Memory struct {
	shards [shardCount]shard // first, so that each begins on a cache line

	start   time.Time // with a monotonic reading
	base    int64     // start in microseconds since 1970
	seed    maphash.Seed
	maxKeys int64

	fullOfKeys, fullOfBytes error

	// retain[id] is the longest window a limit ever had, in microseconds. The
	// slice is replaced, never changed.
	retain  atomic.Pointer[[]int64]
	bindMu  sync.Mutex        // protects the following
	idOf    map[string]uint32 // a limit's identity (R12) to its id
	reclaim sync.Mutex        // held by the caller that looks for idle keys at the cap
	hand    int               // next shard to reclaim from; protected by reclaim

	_         [64]byte // what every decision reads stands on other cache lines than what some write
	budget    budget
	known     operations   // what callers gave an id
	keys      atomic.Int64 // keys held, counted only under MaxKeys
	reclaimed atomic.Int64 // keys forgotten at a cap so far
	refused   atomic.Int64 // attempts and records that met a cap
}

// shardCount is 64, so that the shards of a decision are the bits of one word.
const (
	shardCount = 64
	shardShift = 64 - 6 // what a hash is shifted by to name a shard
)

// MemoryOption adjusts a Memory.
type MemoryOption func(*Memory)

// MaxKeys caps the number of keys, counted once for each limit they have a
// history in, and of operations with an id (Limiter.AllowOnce): at the cap new ones
// are refused. 0, the default, is no cap.
func MaxKeys(n int) MemoryOption {
	return func(m *Memory) { m.maxKeys = int64(max(n, 0)) }
}

// MaxBytes caps the bytes of all histories, keys, operations and tables together: at the cap
// new keys are refused, and further entries of known ones that need more. The Go
// heap holds up to a fifth more for tables that were outgrown and not yet
// collected. 0, the default, is no cap.
func MaxBytes(n int64) MemoryOption {
	return func(m *Memory) { m.budget.most = max(n, 0) }
}

// NewMemory returns an empty memory engine.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{start: time.Now(), seed: maphash.MakeSeed(), idOf: map[string]uint32{}}
	m.base = m.start.UnixMicro()
	m.retain.Store(&[]int64{})
	for _, o := range opts {
		o(m)
	}
	m.makeErrors()
	for i := range m.shards {
		m.shards[i].init(m)
	}
	return m
}

// now reads the engine's clock: microseconds since 1970 that never run back.
// time.Since reads only the monotonic clock, at half the cost of time.Now.
func (m *Memory) now() int64 {
	return m.base + int64(time.Since(m.start)/time.Microsecond)
}

// Len is the number of keys held, counted once for each limit they have a
// history in, idle ones included, and of operations with an id.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += s.records.Len()
		s.mu.Unlock()
	}
	return n + m.known.len()
}

// Bytes is the memory taken by histories, keys and tables.
func (m *Memory) Bytes() int64 { return m.budget.taken.Load() }

// Caps are what MaxKeys and MaxBytes said, 0 for no cap.
func (m *Memory) Caps() (keys, bytes int64) { return m.maxKeys, m.budget.most }

// Refused is how many attempts and records were refused with ErrFull so far.
func (m *Memory) Refused() int64 { return m.refused.Load() }

// budget counts bytes, up to most if that is not 0.
type budget struct {
	most  int64
	taken atomic.Int64
}

// Take reports whether n more bytes fit, and if so counts them.
func (b *budget) Take(n int) bool {
	if b.most > 0 {
		return within(&b.taken, int64(n), b.most)
	}
	b.taken.Add(int64(n))
	return true
}

// Give returns n bytes.
func (b *budget) Give(n int) { b.taken.Add(-int64(n)) }

// within adds n to v if that leaves it at most at most. It never shows more in
// between, which would refuse others.
func within(v *atomic.Int64, n, most int64) bool {
	for {
		before := v.Load()
		if before+n > most {
			return false
		}
		if v.CompareAndSwap(before, before+n) {
			return true
		}
	}
}
