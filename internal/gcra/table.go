package gcra

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// Table decides in the memory of this process. It is safe for concurrent use and has no
// goroutine. It drops a key only when its whole burst is available again: at the cap new
// keys get weir.ErrFull, and known keys continue (R13).
type Table struct {
	start  time.Time // instants are nanoseconds since start: setting the clock has no effect
	seed   maphash.Seed
	shards [shards]shard
}

const (
	shards = 64

	// slotBytes is the memory of a key besides its own bytes: its slot, its place in
	// the map, and the empty places of both.
	slotBytes = 96

	// DefaultBytes is the usual cap of a table.
	DefaultBytes = 256 << 20

	// swept is the number of slots that each writing attempt checks, to drop those whose
	// burst is available again; fullSwept is the number if there is no room.
	swept, fullSwept = 4, 64
)

// shard holds a part of the keys.
type shard struct {
	mu    sync.Mutex // protects the following
	index map[string]int
	slots []slot
	hand  int // where the next sweep begins
	bytes int
	most  int // of bytes
}

// slot is the state of a key.
type slot struct {
	key     string
	arrival int64
}

// NewTable returns an empty table whose keys take at most that many bytes.
func NewTable(most int64) *Table {
	t := &Table{start: time.Now(), seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].index = map[string]int{}
		t.shards[i].most = int(most / shards)
	}
	return t
}

// Throttle decides n units for the key, 0 … weir.MaxUnits; 0 is a peek. The key may be up
// to weir.MaxValueBytes long and is not retained. Errors are
// a *LimitError, weir.ErrUnits, weir.ErrKey and weir.ErrFull.
func (t *Table) Throttle(_ context.Context, key string, l Limit, n int64) (Answer, error) {
	return t.throttleAt(key, l, n, int64(time.Since(t.start)))
}

func (t *Table) throttleAt(key string, l Limit, n, now int64) (Answer, error) {
	r, err := l.rate()
	if err == nil {
		err = checkUnits(n)
	}
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return Answer{}, err
	}
	s := &t.shards[maphash.String(t.seed, key)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt(key, &r, n, now)
}

// attempt decides. mu is held.
func (s *shard) attempt(key string, r *rate, n, now int64) (Answer, error) {
	i, known := s.index[key]
	arrival := now
	if known {
		arrival = s.slots[i].arrival
	}
	a, next := r.attempt(arrival, now, n)
	switch {
	case a.Limited || n == 0:
		return a, nil
	case known:
		s.slots[i].arrival = next
		s.sweep(swept, now)
		return a, nil
	}
	return a, s.add(key, next, now)
}

// add makes a slot for a new key.
func (s *shard) add(key string, arrival, now int64) error {
	cost := len(key) + slotBytes
	s.sweep(swept, now)
	if s.bytes+cost > s.most {
		s.sweep(fullSwept, now)
	}
	if s.bytes+cost > s.most {
		return fmt.Errorf("%w: the keys of CL.THROTTLE take all of their %d KiB, and units are owed for all of them; raise --max-memory", weir.ErrFull, shards*s.most>>10)
	}
	key = strings.Clone(key)
	s.index[key] = len(s.slots)
	s.slots = append(s.slots, slot{key, arrival})
	s.bytes += cost
	return nil
}

// sweep checks n slots and drops those whose burst is available again.
func (s *shard) sweep(n int, now int64) {
	for range min(n, len(s.slots)) {
		if s.hand >= len(s.slots) {
			s.hand = 0
		}
		if s.slots[s.hand].arrival > now {
			s.hand++
			continue
		}
		s.remove(s.hand)
	}
}

// remove drops slot i; the last one takes its place.
func (s *shard) remove(i int) {
	gone, last := s.slots[i].key, len(s.slots)-1
	delete(s.index, gone)
	s.bytes -= len(gone) + slotBytes
	if i < last {
		s.slots[i] = s.slots[last]
		s.index[s.slots[i].key] = i
	}
	s.slots[last] = slot{}
	s.slots = s.slots[:last]
}

// Len returns the number of keys.
func (t *Table) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.slots)
		s.mu.Unlock()
	}
	return n
}
