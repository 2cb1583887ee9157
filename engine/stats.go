package engine

// MemoryStats is the memory in which an engine keeps histories, now (weir.Memory.Stats).
type MemoryStats struct {
	// Keys is the number of keys held, idle ones included, of blocks, and of operations with an
	// idempotency key. A key counts once for each limit that it has a history in.
	Keys int64

	Bytes    int64 // memory of histories, keys, operations and tables
	MaxKeys  int64 // cap of Keys; 0 = none
	MaxBytes int64 // cap of Bytes; 0 = none
	Rejected int64 // attempts and records rejected with ErrFull so far
}
