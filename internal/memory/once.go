package memory

import (
	"container/heap"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/misuse"
)

// operations are the decisions with an idempotency key (Request.ID), by policy, key and
// id. They are stored apart from histories, so that decisions without an id do not pay for
// them.
type operations struct {
	shards [16]operationShard
}

// operationShard is a part of the operations under one lock. The lock is held while an
// operation is decided, so of two callers with one id the second waits for the first. A
// caller that holds it may lock shards of histories, never the reverse.
type operationShard struct {
	mu     sync.Mutex // protects the following
	byName map[string]*operation

	// The operations decided on the engine's clock, and those at instants of callers.
	// Like histories, both are removed by their own time alone (R13).
	real, virtual byExpiry
}

// operation is one decision. A repeated call gets its result. The lock of its shard protects it.
type operation struct {
	Operation
	virtual bool
	place   int32 // index in its heap
}

// once is a call with an idempotency key that was not made before.
type once struct {
	call      *engine.Call
	name      string
	virtual   bool
	full      bool       // there is no room to remember it: recording units fails
	operation *operation // set if units were recorded or taken back
}

// isFull reports whether there is no room to remember the operation.
func (o *once) isFull() bool { return o != nil && o.full }

// remember makes the operation with its result. If it opens a reservation, it makes that too.
func (o *once) remember(d *engine.Result) {
	made := newOperation(o.call, o.name, d)
	if made.Opens && made.Granted > 0 {
		made.open(o.call)
	}
	o.operation = &operation{Operation: made, virtual: o.virtual}
}

// isOnce reports whether a call is charged once.
func isOnce(c *engine.Call) bool {
	if c.ID == "" || c.N <= 0 {
		return false
	}
	return c.Op == engine.Attempt || c.Op == engine.Record || c.Op == engine.Refund
}

// removedAtCap is the most operations that a caller at a cap removes.
const removedAtCap = 4096

// Replay sets the earlier result of a call with an ID, and reports whether there is one. It
// decides nothing.
func (m *Memory) Replay(c *engine.Call) bool {
	if !isOnce(c) {
		return false
	}
	s, name := m.operation(c.Rules, &c.Key, c.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := momentOf(c, moment{})
	o := s.find(m, name, at)
	if o == nil {
		return false
	}
	if o.replay(c, m.instant(at)); c.Err == nil {
		m.describe(&o.Operation, c)
	}
	return true
}

// decideOnce decides a call with an ID, or replays the earlier result. Like decideWithRoom
// it makes room at a cap and tries again.
func (m *Memory) decideOnce(c *engine.Call, at moment) error {
	s, name := m.operation(c.Rules, &c.Key, c.ID)
	for tries := 0; ; tries++ {
		before := m.reclaimed.Load()
		done, err := m.replayOrDecide(s, name, c, at)
		if done {
			return err
		}
		if tries == maxTries || !m.makeRoom(0, at, before) {
			m.rejected.Add(1)
			return err
		}
	}
}

// operation returns the name of an operation and its shard.
func (m *Memory) operation(
	p *engine.Compiled, k *engine.Key, id string,
) (s *operationShard, name string) {
	name = operationName(p, k, id)
	return m.operations.shard(m, name), name
}

// shard returns the shard of an operation of that name.
func (all *operations) shard(m *Memory, name string) *operationShard {
	return &all.shards[maphash.String(m.seed, name)%uint64(len(all.shards))]
}

// replayOrDecide replays the answer of a known operation, or decides it and remembers
// the answer. Without room to remember it still decides an operation that records
// nothing; otherwise done is false, and the error names the cap.
func (m *Memory) replayOrDecide(
	s *operationShard, name string, c *engine.Call, at moment,
) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.find(m, name, at); o != nil {
		o.replay(c, m.instant(at))
		if c.Err == nil {
			m.describe(&o.Operation, c)
		}
		return true, c.Err
	}
	most := mostBytes(c, len(name))
	full := m.takeOperation(c.Op, most)
	first := &once{call: c, name: name, virtual: at.virtual(), full: full != nil}
	err = m.handle(c, at, first)
	if full != nil {
		if err == m.fullOfKeys || err == m.fullOfBytes {
			return false, full
		}
		return true, err
	}
	o := first.operation
	if err != nil || o == nil {
		m.releaseOperation(most)
		return true, err
	}
	m.table.Give(most - o.bytes())
	s.remember(m, o)
	m.describe(&o.Operation, c)
	// So memory follows the operations that are known: each call removes up to two.
	s.removeOver(m, m.instant(at), at.virtual(), 2)
	return true, nil
}

// find returns the operation of that name if it is known at an instant. s.mu is held.
func (s *operationShard) find(m *Memory, name string, at moment) *operation {
	if o := s.byName[name]; o != nil && m.instant(at) < o.Until {
		return o
	}
	return nil
}

// replay sets the earlier result at an instant, or the error of another operation under the same
// id.
func (o *operation) replay(c *engine.Call, at int64) {
	same := o.Op == c.Op && o.Asked == c.N && o.Opens == (c.TTL > 0)
	if !same || o.Op == engine.Refund && o.From != c.From {
		c.Err = engine.Input("id", "it names %s, and now %s; give each operation an id of its own",
			operationText(o.Op, o.Opens, o.Asked, o.From),
			operationText(c.Op, c.TTL > 0, c.N, c.From))
		return
	}
	clear(c.States) // no state was read
	c.Result = o.result(at)
	c.Result.Replayed = true
}

// operationText returns an operation in a sentence.
func operationText(op engine.Op, opens bool, n, from int64) string {
	text := opWords[op] + " of " + misuse.Units(n)
	if opens {
		text = "a reservation of " + misuse.Units(n)
	}
	if op == engine.Refund && from != engine.Oldest {
		text += " at " + time.UnixMicro(from).UTC().Format(time.RFC3339Nano)
	}
	return text
}

// opWords are the operations that have an idempotency key, in a sentence.
var opWords = [...]string{
	engine.Attempt: "an attempt",
	engine.Record:  "a record",
	engine.Refund:  "a refund",
}

// mostBytes is the most memory that the operation of a call takes.
func mostBytes(c *engine.Call, name int) int {
	n := operationBytes + boundBytes + name
	if c.TTL > 0 {
		n += reservationBytes
	}
	return n
}

// spareKeys and spareBytes are the room beyond the caps for refunds and settlements: an eighth.
// Otherwise a flood of new keys would keep others from ending their holds. Without a bound, grants
// that are taken back would fill the memory.
func (m *Memory) spareKeys() int64 {
	keys, _ := m.Caps()
	return keys/8 + 16
}

func (m *Memory) spareBytes() int64 {
	_, bytes := m.Caps()
	return bytes / 8
}

// takeOperation takes the room of one operation; the error names the cap that was met.
func (m *Memory) takeOperation(op engine.Op, bytes int) error {
	var spareKeys, spareBytes int64
	if op == engine.Refund {
		spareKeys, spareBytes = m.spareKeys(), m.spareBytes()
	}
	if !m.table.TakeKeysAbove(spareKeys, 1) {
		return m.fullOfKeys
	}
	if !m.table.TakeAbove(spareBytes, bytes) {
		m.table.GiveKeys(1)
		return m.fullOfBytes
	}
	return nil
}

// releaseOperation returns the room that takeOperation took.
func (m *Memory) releaseOperation(bytes int) {
	m.table.GiveKeys(1)
	m.table.Give(bytes)
}

// remember stores an operation in the room that was reserved.
func (s *operationShard) remember(m *Memory, o *operation) {
	if before := s.byName[o.Name]; before != nil { // over, and not removed yet
		s.remove(m, before)
	}
	if s.byName == nil {
		s.byName = map[string]*operation{}
	}
	s.byName[o.Name] = o
	heap.Push(s.heap(o.virtual), o)
}

// heap returns the heap of operations of one kind of time.
func (s *operationShard) heap(virtual bool) *byExpiry {
	if virtual {
		return &s.virtual
	}
	return &s.real
}

// removeOver removes at most n operations that are no longer known at now.
func (s *operationShard) removeOver(m *Memory, now int64, virtual bool, n int) (removed int) {
	if virtual {
		now -= keytable.VirtualSlack
	}
	for h := s.heap(virtual); removed < n && len(*h) > 0 && (*h)[0].Until <= now; removed++ {
		s.remove(m, (*h)[0])
	}
	return removed
}

func (s *operationShard) remove(m *Memory, o *operation) {
	heap.Remove(s.heap(o.virtual), int(o.place))
	delete(s.byName, o.Name)
	if len(s.byName) == 0 {
		s.byName = nil
		s.real = nil
		s.virtual = nil
	}
	m.releaseOperation(o.bytes())
}

// removeOver removes all operations on the engine's clock that are no longer known at now.
func (all *operations) removeOver(m *Memory, now int64) (removed int) {
	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		removed += s.removeOver(m, now, false, math.MaxInt)
		s.mu.Unlock()
	}
	return removed
}

// removeSome removes some operations that are no longer known at now. It skips locked shards,
// because the caller may hold one.
func (all *operations) removeSome(m *Memory, now int64, virtual bool) (removed int) {
	for i := range all.shards {
		if s := &all.shards[i]; s.mu.TryLock() {
			removed += s.removeOver(m, now, virtual, removedAtCap-removed)
			s.mu.Unlock()
		}
	}
	return removed
}

// mayExceed reports whether a cap may be exceeded: a refund or a settlement is remembered.
func (all *operations) mayExceed() bool {
	for i := range all.shards {
		for _, o := range all.shards[i].byName {
			if o.Op == engine.Refund || o.Reservation != nil && o.Reservation.Settled() {
				return true
			}
		}
	}
	return false
}

func (all *operations) len() int {
	n := 0
	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		n += len(s.byName)
		s.mu.Unlock()
	}
	return n
}

// byExpiry is a heap of operations by Until, the earliest in front.
type byExpiry []*operation

func (h byExpiry) Len() int           { return len(h) }
func (h byExpiry) Less(i, j int) bool { return h[i].Until < h[j].Until }
func (h byExpiry) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = int32(i), int32(j)
}

func (h *byExpiry) Push(o any) {
	o.(*operation).place = int32(len(*h))
	*h = append(*h, o.(*operation))
}

func (h *byExpiry) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}
