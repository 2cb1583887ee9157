package weir

import (
	"context"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/internal/option"
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
// units. Every fourth new key, and one in a few dozen other recordings, sweeps: it looks at a few
// histories and removes those that no longer count. Peeks and denials remove none. MaxKeys and
// MaxBytes never remove a history that still counts: at the cap, recordings that need more room
// are rejected with ErrFull (R13).
//
// Histories recorded at instants that the caller passed (Limiter.At) live in their own
// time. Only recordings at such instants remove them, an hour of that time after they
// stopped counting.
//
// The histories of a limit are kept for the longest window that the limit ever had on
// this engine: a shortened window frees memory as slowly as before (R12). A bucket is kept
// until it is full. The rate of every bucket is remembered, in about 100 bytes.
type Memory struct {
	engine    *memory.Memory
	documents documents.Store
}

// MemoryOption sets one property of a Memory that [NewMemory] makes. A nil MemoryOption changes
// nothing.
type MemoryOption func(*memoryConfig)

type memoryConfig struct{ keys, bytes int64 } // caps, 0 = none

// MaxKeys caps the number of keys, counted once for each limit they have a history in,
// and of operations with an idempotency key (Limiter.AllowOnce). At the cap new ones are
// rejected. Refunds may exceed it by an eighth, so that holds can end. Default, also for 0 or
// less: no cap.
func MaxKeys(n int) MemoryOption { return func(c *memoryConfig) { c.keys = int64(max(n, 0)) } }

// MaxBytes caps the bytes of all histories, keys, operations and tables together. At the
// cap new keys are rejected, and so are further entries of known keys that need more. Refunds
// with an idempotency key may exceed it by an eighth, with about 400 bytes each. The
// process holds a few percent more, for pages that were freed and not yet collected.
// Default, also for 0 or less: no cap.
func MaxBytes(n int64) MemoryOption { return func(c *memoryConfig) { c.bytes = max(n, 0) } }

// NewMemory returns an empty memory engine.
func NewMemory(opts ...MemoryOption) *Memory {
	var c memoryConfig
	option.Apply(&c, opts)
	return &Memory{engine: memory.New(memory.Options{MaxKeys: c.keys, MaxBytes: c.bytes})}
}

// Do decides calls in their order. A [Limiter] calls it. On the zero or nil Memory every call is an
// [InputError].
func (m *Memory) Do(ctx context.Context, calls []engine.Call) {
	if m.inner() == nil || ctx == nil {
		misuse.Fail(ctx, calls, "weir.NewMemory")
		return
	}
	m.engine.Do(ctx, calls)
}

// errZeroMemory is the error of the documents of the zero and the nil Memory.
var errZeroMemory = misuse.Error(context.Background(), "weir.NewMemory")

// inner returns the engine of a Memory, or nil for the zero and the nil one.
func (m *Memory) inner() *memory.Memory {
	if m == nil {
		return nil
	}
	return m.engine
}

// Stats returns the number of keys, the bytes that they take, and the caps.
func (m *Memory) Stats() engine.MemoryStats { return m.inner().Stats() }

// Sweep removes all histories and operations that no longer count on the engine's clock,
// a slice of a shard at a time, and returns their number. Calling it is optional:
// recordings sweep a little each. It is for programs that want their memory back while
// no units are recorded.
func (m *Memory) Sweep() (removed int) { return m.inner().Sweep() }

// Documents returns the documents beside the histories. They are lost at the end of the process,
// and their bytes do not count for MaxBytes.
func (m *Memory) Documents() engine.Documents {
	if m.inner() == nil {
		return documents.Failing(errZeroMemory)
	}
	return &m.documents
}
