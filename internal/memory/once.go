package memory

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
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

// operation is one decision. A repeated call gets its Result.
type operation struct {
	Operation
	virtual bool
	place   int // index in its heap
}

// operationBytes is the memory of an operation without its name: the struct, and its places
// in the map and in the heap.
const operationBytes = 296

// removedAtCap is the most operations that a caller at a cap removes.
const removedAtCap = 4096

// Replay sets the earlier result of a call with an ID, and reports whether there is one. It
// decides nothing.
func (m *Memory) Replay(c *engine.Call) bool {
	if c.ID == "" || c.N == 0 || c.Op == engine.Peek {
		return false
	}
	s, name := m.operation(c.Rules, &c.Key, c.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.find(m, name, momentOf(c, moment{}))
	if o != nil {
		o.replay(c)
	}
	return o != nil
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
func (m *Memory) operation(p *engine.Compiled, k *engine.Key, id string) (s *operationShard, name string) {
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
func (m *Memory) replayOrDecide(s *operationShard, name string, c *engine.Call, at moment) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.find(m, name, at); o != nil {
		o.replay(c)
		return true, c.Err
	}
	full := m.takeOperation(c.Op, len(name))
	err = m.handle(c, at, name, full != nil)
	if full != nil {
		if err == m.fullOfKeys || err == m.fullOfBytes {
			return false, full
		}
		return true, err
	}
	if err != nil || !c.Changes() {
		m.releaseOperation(len(name))
		return true, err
	}
	s.remember(m, newOperation(c.Rules, name, c.Op, c.N, c.From, &c.Result), at.virtual())
	s.removeOver(m, m.instant(at), at.virtual(), 2) // so that memory follows the operations that are known
	return true, nil
}

// find returns the operation of that name if it is known at an instant. s.mu is held.
func (s *operationShard) find(m *Memory, name string, at moment) *operation {
	if o := s.byName[name]; o != nil && m.instant(at) < o.Until {
		return o
	}
	return nil
}

// replay sets the earlier result, or the error of another operation under the same id.
func (o *operation) replay(c *engine.Call) {
	if o.Op != c.Op || o.Asked != c.N || o.Op == engine.Refund && o.From != c.From {
		c.Err = engine.Input("id", "it names %s, and now %s; give each operation an id of its own",
			operationText(o.Op, o.Asked, o.From), operationText(c.Op, c.N, c.From))
		return
	}
	clear(c.States) // no state was read
	c.Result = o.Result
	c.Result.Replayed = true
}

// operationText returns an operation in a sentence.
func operationText(op engine.Op, n, from int64) string {
	text := fmt.Sprintf("%s of %d units", opWords[op], n)
	if op == engine.Refund && from != engine.Oldest {
		text += " at " + time.UnixMicro(from).UTC().Format(time.RFC3339Nano)
	}
	return text
}

// opWords are the operations that have an idempotency key, in a sentence.
var opWords = [...]string{engine.Attempt: "an attempt", engine.Record: "a record", engine.Refund: "a refund"}

// takeOperation takes the room of one operation; the error names the cap that was met. Those
// of refunds may exceed a cap by an eighth, otherwise a flood of new keys would keep others
// from ending their holds. Without a bound, grants that are taken back would fill the memory.
func (m *Memory) takeOperation(op engine.Op, name int) error {
	var keys, bytes int64
	if op == engine.Refund {
		keys, bytes = m.Caps()
		keys, bytes = keys/8+16, bytes/8
	}
	if !m.table.TakeKeysAbove(keys, 1) {
		return m.fullOfKeys
	}
	if !m.table.TakeAbove(bytes, operationBytes+name) {
		m.table.GiveKeys(1)
		return m.fullOfBytes
	}
	return nil
}

// releaseOperation returns the room that takeOperation took.
func (m *Memory) releaseOperation(name int) {
	m.table.GiveKeys(1)
	m.table.Give(operationBytes + name)
}

// remember stores an operation in the room that was reserved.
func (s *operationShard) remember(m *Memory, decided Operation, virtual bool) {
	if before := s.byName[decided.Name]; before != nil { // over, and not removed yet
		s.remove(m, before)
	}
	if s.byName == nil {
		s.byName = map[string]*operation{}
	}
	o := &operation{Operation: decided, virtual: virtual}
	s.byName[o.Name] = o
	heap.Push(s.heap(virtual), o)
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
	heap.Remove(s.heap(o.virtual), o.place)
	delete(s.byName, o.Name)
	if len(s.byName) == 0 {
		s.byName, s.real, s.virtual = nil, nil, nil
	}
	m.releaseOperation(len(o.Name))
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

// refunds returns the number of refunds, which may exceed a cap, and their bytes.
func (all *operations) refunds() (keys, bytes int64) {
	for i := range all.shards {
		for _, o := range all.shards[i].byName {
			if o.Op == engine.Refund {
				keys, bytes = keys+1, bytes+operationBytes+int64(len(o.Name))
			}
		}
	}
	return keys, bytes
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
	h[i].place, h[j].place = i, j
}

func (h *byExpiry) Push(o any) {
	o.(*operation).place = len(*h)
	*h = append(*h, o.(*operation))
}

func (h *byExpiry) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}

// operationName consists of the policy's name, the names and values of the key's dimensions,
// and the id. Each part stands behind its length, so that no two operations share a name (R14).
// Dimensions stand in the order of their names, so that a change of the order of limits keeps
// the operations (R12).
func operationName(p *engine.Compiled, k *engine.Key, id string) string {
	var room [256]byte
	b := keyenc.Append(room[:0], p.Name)
	var order [keyenc.MaxValues]int
	dims := order[:0]
	for i := range p.Dimensions {
		dims = append(dims, i)
	}
	slices.SortFunc(dims, func(i, j int) int { return strings.Compare(p.Dimensions[i], p.Dimensions[j]) })
	for _, i := range dims {
		b = keyenc.Append(keyenc.Append(b, p.Dimensions[i]), k.Value(i))
	}
	return string(keyenc.Append(b, id))
}
