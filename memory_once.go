package weir

import (
	"container/heap"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
)

// operations are the decisions with an idempotency key (Request.ID), by policy, key and
// id. They stand apart from histories, so that decisions without an id do not pay for
// them.
type operations struct {
	shards [16]operationShard
}

// operationShard is a part of them under one lock, which is held while an operation of it
// is decided: of two callers with one id the second waits for the first. A caller that
// holds it may lock shards of histories, never the reverse.
type operationShard struct {
	mu     sync.Mutex // protects the following
	byName map[string]*operation

	// The operations decided on the engine's clock, and those at instants of callers.
	// Like histories, each are removed by their own time alone (R13).
	real, virtual byExpiry
}

// operation is one decision, and the answer when the call is made again.
type operation struct {
	name     string
	request  Request // Op and N
	granted  int64   // of a refund: the instant of the entry
	until    int64   // the operation is known before this instant
	virtual  bool
	place    int // in its heap
	decision Decision
}

// operationBytes is the memory of an operation besides its name: in itself, in the map
// and in the heap.
const operationBytes = 296

// removedAtCap is the most operations that a caller at a cap removes.
const removedAtCap = 4096

// RefundOnce is Refund with an idempotency key (RefundOnceEngine).
func (m *Memory) RefundOnce(_ context.Context, p *Plan, k Key, at, n, now int64, id string) (int64, error) {
	var d Decision
	err := m.handleOnce(p, &k, &Request{Op: OpRefund, N: n, ID: id}, momentOf(now), at, &d)
	return d.Granted, err
}

// Replay returns the earlier answer of an operation with an ID, and reports whether
// there is one. It decides nothing.
func (m *Memory) Replay(p *Plan, k Key, req Request) (d Decision, found bool, err error) {
	if !req.names() {
		return d, false, nil
	}
	s, name := m.operation(p, &k, req.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.find(m, name, req.moment()); o != nil {
		err = o.replay(&req, 0, &d)
		return d, true, err
	}
	return d, false, nil
}

// handleOnce decides a request with an ID, or replays the earlier answer. Like
// decideWithRoom it makes room at a cap and tries again. at is the instant of the call,
// granted that of the entry that a refund is of.
func (m *Memory) handleOnce(p *Plan, k *Key, req *Request, at moment, granted int64, d *Decision) error {
	s, name := m.operation(p, k, req.ID)
	for tries := 0; ; tries++ {
		done, err := m.replayOrDecide(s, name, p, k, req, at, granted, d)
		if done {
			return err
		}
		if tries == maxTries || !m.makeRoom(0, at) {
			m.rejected.Add(1)
			return err
		}
	}
}

// operation returns the name of an operation and its shard.
func (m *Memory) operation(p *Plan, k *Key, id string) (s *operationShard, name string) {
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
func (m *Memory) replayOrDecide(s *operationShard, name string, p *Plan, k *Key, req *Request, at moment, granted int64, d *Decision) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.find(m, name, at); o != nil {
		return true, o.replay(req, granted, d)
	}
	full := m.takeOperation(len(name))
	if req.Op == OpRefund {
		var decided int64
		d.Granted, decided, err = m.refund(p, k, granted, req.N, at, full != nil, name)
		d.At = time.UnixMicro(decided) // R2 may have moved it ahead of the clock
	} else {
		once := *req
		once.ID, once.once, once.full = "", name, full != nil
		err = m.handle(p, k, &once, d)
	}
	if full != nil {
		if err == m.fullOfKeys || err == m.fullOfBytes {
			return false, full
		}
		return true, err
	}
	if err != nil || !p.records(req, d) {
		m.releaseOperation(len(name))
		return true, err
	}
	s.remember(m, name, req, at, granted, p.IdempotencyTTL().Microseconds(), d)
	return true, nil
}

// find returns the operation of that name if it is known at an instant. s.mu is held.
func (s *operationShard) find(m *Memory, name string, at moment) *operation {
	if o := s.byName[name]; o != nil && m.instant(at) < o.until {
		return o
	}
	return nil
}

// replay returns the earlier answer, or ErrID for another operation under the same id.
func (o *operation) replay(req *Request, granted int64, d *Decision) error {
	if o.request.Op != req.Op || o.request.N != req.N || o.granted != granted {
		return errOtherOperation(&o.request, req)
	}
	clear(req.States) // no state was read
	*d = o.decision
	d.Replayed = true
	return nil
}

// takeOperation takes the room of one operation; the error names the cap that was met.
func (m *Memory) takeOperation(name int) error {
	if !m.table.TakeKeys(1) {
		return m.fullOfKeys
	}
	if !m.table.Take(operationBytes + name) {
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

// remember stores a decision in the room that was reserved and removes two operations
// that are over, so that memory follows the operations that are known.
func (s *operationShard) remember(m *Memory, name string, req *Request, at moment, granted, life int64, d *Decision) {
	if before := s.byName[name]; before != nil { // over, and not removed yet
		s.remove(m, before)
	}
	if s.byName == nil {
		s.byName = map[string]*operation{}
	}
	virtual := at.virtual()
	o := &operation{name: name, request: Request{Op: req.Op, N: req.N}, granted: granted, until: d.At.UnixMicro() + life, virtual: virtual, decision: *d}
	s.byName[name] = o
	heap.Push(s.heap(virtual), o)
	s.removeOver(m, m.instant(at), virtual, 2)
}

// heap returns the heap of operations of one kind of time.
func (s *operationShard) heap(virtual bool) *byExpiry {
	if virtual {
		return &s.virtual
	}
	return &s.real
}

// removeOver removes at most n operations that are over.
func (s *operationShard) removeOver(m *Memory, now int64, virtual bool, n int) (removed int) {
	if virtual {
		now -= keytable.VirtualSlack
	}
	for h := s.heap(virtual); removed < n && len(*h) > 0 && (*h)[0].until <= now; removed++ {
		s.remove(m, (*h)[0])
	}
	return removed
}

func (s *operationShard) remove(m *Memory, o *operation) {
	heap.Remove(s.heap(o.virtual), o.place)
	delete(s.byName, o.name)
	if len(s.byName) == 0 {
		s.byName, s.real, s.virtual = nil, nil, nil
	}
	m.releaseOperation(len(o.name))
}

// removeOver removes all operations on the engine's clock that are over.
func (all *operations) removeOver(m *Memory, now int64) (removed int) {
	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		removed += s.removeOver(m, now, false, math.MaxInt)
		s.mu.Unlock()
	}
	return removed
}

// removeSome removes some operations that are over. It skips locked shards: the caller may
// hold one.
func (all *operations) removeSome(m *Memory, now int64, virtual bool) (removed int) {
	for i := range all.shards {
		if s := &all.shards[i]; s.mu.TryLock() {
			removed += s.removeOver(m, now, virtual, removedAtCap-removed)
			s.mu.Unlock()
		}
	}
	return removed
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

// byExpiry is a heap of operations, the one that is over first in front.
type byExpiry []*operation

func (h byExpiry) Len() int           { return len(h) }
func (h byExpiry) Less(i, j int) bool { return h[i].until < h[j].until }
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

// operationName consists of the policy's name, the key's values by the names of their
// dimensions, and the id, each behind its length, so that no two operations share one
// (R14). Dimensions stand in the order of their names: a policy whose limits changed
// places has the same operations (R12).
func operationName(p *Plan, k *Key, id string) string {
	var room [256]byte
	b := keyenc.Append(room[:0], p.Name())
	var order [MaxDimensions]int
	dims := order[:0]
	for i := range p.dimensions {
		dims = append(dims, i)
	}
	slices.SortFunc(dims, func(i, j int) int {
		if p.dimensions[i] < p.dimensions[j] {
			return -1
		}
		return 1
	})
	for _, i := range dims {
		b = keyenc.Append(keyenc.Append(b, p.dimensions[i]), k.value(i))
	}
	return string(keyenc.Append(b, id))
}
