package weir

import (
	queue "container/heap"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/keyenc"
)

// operations are the decisions to which callers gave an id (Ask.ID), by policy, key
// and id. They stand apart from histories, so that decisions without an id do not
// pay for them.
type operations struct {
	shards [16]operationShard
}

// operationShard is a part of them under one lock, which is held while an operation
// of it is decided: of two callers with one id the second waits for the first.
// Whoever holds it may lock shards of histories, never the reverse.
type operationShard struct {
	mu sync.Mutex // protects the following
	of map[string]*operation

	// Those that were decided on the engine's clock, and those at instants of the
	// caller's: like histories, each are forgotten by their own time alone (R13).
	real, virtual due
}

// operation is what was decided, and what is answered when it is asked again.
type operation struct {
	name     string
	ask      Request // Op and N
	granted  int64   // of a refund: the instant of the entry
	until    int64
	virtual  bool
	place    int // in its heap
	decision Decision
}

// operationBytes is what an operation takes besides its name, in itself, in the map
// and in the heap.
const operationBytes = 296

// RefundOnce is Refund of an operation with an id (RefundOnceEngine).
func (m *Memory) RefundOnce(_ context.Context, p *Plan, k Key, at, n, now int64, id string) (int64, error) {
	var d Decision
	err := m.once(p, &k, &Request{Op: opRefund, N: n, At: now, ID: id}, at, &d)
	return d.Granted, err
}

// decideOnce is decide for an operation with an id.
func (m *Memory) decideOnce(p *Plan, k *Key, a *Request, d *Decision) error {
	return m.once(p, k, a, 0, d)
}

// operation finds the name of an operation, and the shard that knows it if any does.
func (m *Memory) operation(p *Plan, k *Key, id string) (s *operationShard, name string) {
	name = operationName(p, k, id)
	return &m.known.shards[maphash.String(m.seed, name)%uint64(len(m.known.shards))], name
}

// Replay returns the earlier answer of an operation with an ID, and reports whether
// there is one. It decides nothing.
func (m *Memory) Replay(p *Plan, k Key, a Request) (d Decision, found bool, err error) {
	if !a.names() {
		return d, false, nil
	}
	s, name := m.operation(p, &k, a.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.find(m, name, a.At); o != nil {
		err = o.repeat(&a, 0, &d)
		return d, true, err
	}
	return d, false, nil
}

// once does what has an id. Like persist it makes room when the engine is full, and
// tries again. granted is the instant of the entry that a refund is of.
func (m *Memory) once(p *Plan, k *Key, a *Request, granted int64, d *Decision) error {
	s, name := m.operation(p, k, a.ID)
	for tries := 0; ; tries++ {
		done, err := m.tryOnce(s, name, p, k, a, granted, d)
		if done {
			return err
		}
		now := a.At
		if now == Now {
			now = m.now()
		}
		if tries == mostTries || !m.makeRoom(nil, now, a.At != Now) {
			m.refused.Add(1)
			return err
		}
	}
}

// tryOnce answers from the operations in memory, or decides and remembers. Without room
// to remember it still decides an operation that records nothing; otherwise done is
// false, and the error names the cap.
func (m *Memory) tryOnce(s *operationShard, name string, p *Plan, k *Key, a *Request, granted int64, d *Decision) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.find(m, name, a.At); o != nil {
		return true, o.repeat(a, granted, d)
	}
	full := m.takeOperation(len(name))
	if a.Op == opRefund {
		var decided int64
		d.Granted, decided, err = m.refund(p, k, granted, a.N, a.At, full != nil)
		d.At = time.UnixMicro(decided) // R2 may have moved it ahead of the clock
	} else {
		once := *a
		once.ID, once.full = "", full != nil
		err = m.decide(p, k, &once, d)
	}
	if full != nil {
		if err == m.fullOfKeys || err == m.fullOfBytes {
			return false, full
		}
		return true, err
	}
	if err != nil || !p.records(a, d) {
		m.releaseOperation(len(name))
		return true, err
	}
	s.remember(m, name, a, granted, p.IdempotencyTTL().Microseconds(), d)
	return true, nil
}

// find returns the operation of that name, if it is known at an instant. s.mu is held.
func (s *operationShard) find(m *Memory, name string, at int64) *operation {
	if o := s.of[name]; o != nil && m.read(at) < o.until {
		return o
	}
	return nil
}

// repeat answers as the operation was answered, if it is the same.
func (o *operation) repeat(a *Request, granted int64, d *Decision) error {
	if o.ask.Op != a.Op || o.ask.N != a.N || o.granted != granted {
		return errOtherOperation(&o.ask, a)
	}
	clear(a.States) // nobody looked
	*d = o.decision
	d.Replayed = true
	return nil
}

// takeOperation takes the room of one operation, or says what is full.
func (m *Memory) takeOperation(name int) error {
	if m.maxKeys > 0 && !within(&m.keys, 1, m.maxKeys) {
		return m.fullOfKeys
	}
	if !m.budget.Take(operationBytes + name) {
		if m.maxKeys > 0 {
			m.keys.Add(-1)
		}
		return m.fullOfBytes
	}
	return nil
}

// releaseOperation gives back what takeOperation took.
func (m *Memory) releaseOperation(name int) {
	if m.maxKeys > 0 {
		m.keys.Add(-1)
	}
	m.budget.Give(operationBytes + name)
}

// remember keeps what was decided, in the room that was reserved, and forgets two
// that are over: so that what is kept follows what is remembered.
func (s *operationShard) remember(m *Memory, name string, a *Request, granted, life int64, d *Decision) {
	if before := s.of[name]; before != nil { // over, and not forgotten yet
		s.drop(m, before)
	}
	if s.of == nil {
		s.of = map[string]*operation{}
	}
	virtual := a.At != Now
	o := &operation{name: name, ask: Request{Op: a.Op, N: a.N}, granted: granted, until: d.At.UnixMicro() + life, virtual: virtual, decision: *d}
	s.of[name] = o
	queue.Push(s.heap(virtual), o)
	s.forget(m, m.read(a.At), virtual, 2)
}

// heap is the one that operations of a kind of time are in.
func (s *operationShard) heap(virtual bool) *due {
	if virtual {
		return &s.virtual
	}
	return &s.real
}

// forget drops at most n that are over.
func (s *operationShard) forget(m *Memory, now int64, virtual bool, n int) (forgotten int) {
	if virtual {
		now -= virtualSlack
	}
	for h := s.heap(virtual); forgotten < n && len(*h) > 0 && (*h)[0].until <= now; forgotten++ {
		s.drop(m, (*h)[0])
	}
	return forgotten
}

func (s *operationShard) drop(m *Memory, o *operation) {
	queue.Remove(s.heap(o.virtual), o.place)
	delete(s.of, o.name)
	if len(s.of) == 0 {
		s.of, s.real, s.virtual = nil, nil, nil
	}
	m.releaseOperation(len(o.name))
}

// forget drops all operations on the engine's clock that are over.
func (all *operations) forget(m *Memory, now int64) (forgotten int) {
	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		forgotten += s.forget(m, now, false, math.MaxInt)
		s.mu.Unlock()
	}
	return forgotten
}

// forgetSome drops at most n that are over. Shards in use are passed over: the
// caller may be the one who holds one.
func (all *operations) forgetSome(m *Memory, now int64, virtual bool, n int) (forgotten int) {
	for i := range all.shards {
		if s := &all.shards[i]; s.mu.TryLock() {
			forgotten += s.forget(m, now, virtual, n-forgotten)
			s.mu.Unlock()
		}
	}
	return forgotten
}

func (all *operations) len() int {
	n := 0
	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		n += len(s.of)
		s.mu.Unlock()
	}
	return n
}

// operationName is the policy's name, the key's values by the names of their
// dimensions, and the id, each behind its length, so that no two operations share
// one (R14). Dimensions stand in the order of their names: a policy whose limits
// changed places has the same operations (R12).
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
