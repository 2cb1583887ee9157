package memory

import (
	"hash/maphash"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// Clock reads the engine's clock: microseconds since 1970 that never run back.
func (m *Memory) Clock() int64 { return m.now() }

// NotBefore moves the engine's clock ahead to an instant in microseconds, if it is behind
// it. Call it before the first decision.
func (m *Memory) NotBefore(at int64) {
	m.base += max(at-m.now(), 0)
}

// Apply makes a change again. A history without the entry of a Refund stays as it is, and
// an operation replaces only one that is remembered for less long. Apply forgets no history,
// so changes of different histories can be applied at the same time. The errors are
// engine.ErrFull, at a cap, and an engine.InputError for a key that does not fit the name.
//
// For several changes of one Name, Apply is faster with copies of a Change that was
// applied.
func (m *Memory) Apply(c *Change) error {
	if c.Kind == Remember {
		return m.applyOperation(c)
	}
	if c.limit == nil || c.limit.histories != c.Name {
		dimensions := strings.Count(c.Name, "\x00") - 2
		if dimensions < 0 {
			return c.misfit()
		}
		c.limit = m.named(c.Name, c.Keep, dimensions)
	}
	if c.Kind == Retain {
		m.table.Group(c.Name, c.Keep)
		return nil
	}
	hash, ok := m.hashOf(c.limit, c.Key)
	if !ok {
		return c.misfit()
	}
	s := m.table.Shard(hash)
	s.Lock()
	defer s.Unlock()
	return m.applyIn(s, uint32(hash), c)
}

func (c *Change) misfit() error {
	return engine.Input("key", "it does not fit the histories of %q", c.Name)
}

// named returns the limit with histories of that name.
func (m *Memory) named(name string, keep int64, dimensions int) *limitRules {
	group, _ := m.table.Group(name, keep)
	l := &limitRules{histories: name, group: group, salt: m.salt(name), sole: -1}
	for i := range dimensions {
		l.by = append(l.by, i)
	}
	if dimensions == 1 {
		l.sole = 0
	}
	return l
}

// hashOf is Memory.hash for an encoded key. It reports false for a key that does not fit.
func (m *Memory) hashOf(l *limitRules, key []byte) (hash uint64, ok bool) {
	if l.sole >= 0 {
		return l.mix(maphash.Bytes(m.seed, key)), true
	}
	hash = l.salt
	for range l.by {
		var value []byte
		if value, key, ok = keyenc.Next(key); !ok {
			return 0, false
		}
		hash = hash*hashOdd ^ maphash.Bytes(m.seed, value)
	}
	return hash, len(key) == 0
}

// applyIn changes a history in its locked shard.
func (m *Memory) applyIn(s *keytable.Shard, tag uint32, c *Change) error {
	ref := keytable.Find(s, tag, c.limit.group, c.Key)
	isNew := ref == 0
	switch {
	case !isNew:
	case c.Kind == Refund || c.Kind == Remove:
		return nil
	case !s.Reserve(&m.table, tag, 1, keytable.KeyChunks(len(c.Key))):
		return m.fullOfBytes
	case !m.table.TakeKeys(1):
		return m.fullOfKeys
	default:
		ref = keytable.Insert(s, tag, c.limit.group, c.Key)
	}
	r := s.At(ref)
	if !isNew { // Insert has locked it
		r.Lock()
	}
	defer r.Unlock()
	switch c.Kind {
	case Remove:
		s.Remove(&m.table, tag, ref)
		return nil
	case Refund:
		if c.End == engine.Oldest {
			r.RefundOldest(&s.Arena, c.Cutoff, c.Units)
		} else {
			r.Refund(&s.Arena, c.End, c.End-1, c.Units)
		}
		return nil
	case Append:
		used, from := r.Used(&s.Arena, c.Cutoff)
		if r.Prune(&s.Arena, c.Cutoff, used, from); !s.Reserve(&m.table, tag, 0, r.Chunks(c.End, c.Units)) {
			return m.fullOfBytes
		}
		if r.Add(&s.Arena, c.End, c.At, c.Units); c.Capped {
			r.Cap(&s.Arena, c.Cap)
		}
	case Replace:
		isNew = true // it may expire sooner than before
		if err := m.replace(s, tag, r, c); err != nil {
			return err
		}
	}
	s.Recorded(&m.table, r, isNew, c.Virtual)
	return nil
}

// replace gives a locked record another history.
func (m *Memory) replace(s *keytable.Shard, tag uint32, r *keytable.Record, c *Change) error {
	r.Free(&s.Arena)
	if c.Max > 0 {
		r.SetBucket(m.rates.number(window.NewRefill(c.Max, c.Window)), c.Full, c.Part, c.Front, c.At)
	}
	for _, e := range c.Entries {
		if !s.Reserve(&m.table, tag, 0, r.Chunks(e.End, e.Units)) {
			return m.fullOfBytes
		}
		r.Add(&s.Arena, e.End, c.At, e.Units)
	}
	r.Last = c.At
	return nil
}

// applyOperation remembers an operation, unless one of its name is remembered for longer: a
// Dump may have read it before another call took its place.
func (m *Memory) applyOperation(c *Change) error {
	o := c.Operation
	s := m.operations.shard(m, o.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byName[o.Name]; known != nil && known.until >= o.Until {
		return nil
	}
	if err := m.takeOperation(len(o.Name)); err != nil {
		return err
	}
	at := moment{}
	if c.Virtual {
		at = moment{c.At, fromCaller}
	}
	s.remember(m, o.Name, &engine.Call{Op: o.Op, N: o.Asked, From: o.From, Result: o.Result}, at, o.Until-o.Result.At.UnixMicro())
	return nil
}
