package keytable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

func newTable(maxKeys, maxBytes int64) *Table {
	t := &Table{}
	t.Init(maxKeys, maxBytes)
	return t
}

// TestSizes holds records and shards to the sizes that their comments claim.
func TestSizes(t *testing.T) {
	if got := unsafe.Sizeof(Record{}); got != recordSize {
		t.Errorf("a record has %d bytes, want %d", got, recordSize)
	}
	if got := unsafe.Sizeof(Shard{}); got%64 != 0 {
		t.Errorf("a shard has %d bytes, want whole cache lines", got)
	}
}

// TestRemovedRecordsAreNotLocked: a caller that found a record before it was removed does
// not wait for it, nor lock it (R10).
func TestRemovedRecordsAreNotLocked(t *testing.T) {
	table := newTable(0, 0)
	s := table.Shard(0)
	group, _ := table.Group("limit", 1000)
	if !s.Reserve(table, 7, 1, 0) {
		t.Fatal("no room")
	}
	ref := Insert(s, 7, group, "key")
	found := s.At(ref)
	s.Remove(table, 7, ref)
	if found.LockLive() {
		t.Error("LockLive has locked it")
	}
}

// TestFindComparesGroupAndKey: keys of all sizes with one tag stay apart, as strings and
// as bytes, and removal of some leaves the others.
func TestFindComparesGroupAndKey(t *testing.T) {
	table := newTable(0, 0)
	s := table.Shard(0)
	type id struct {
		group uint32
		key   string
	}
	refs := map[id]uint32{}
	for group := range uint32(2) {
		table.Group(fmt.Sprint(group), 1000)
		for _, size := range []int{0, 1, inlineKey, inlineKey + 1, longKeyBytes, longKeyBytes + 1, 500} {
			for _, fill := range []string{"a", "b"} {
				key := string(bytes.Repeat([]byte(fill), size))
				if Find(s, 7, group, key) != 0 {
					continue // the empty key
				}
				if !s.Reserve(table, 7, 1, KeyChunks(size)) {
					t.Fatal("no room")
				}
				ref := Insert(s, 7, group, key)
				s.At(ref).Unlock()
				refs[id{group, key}] = ref
			}
		}
	}
	check := func() { // a record that is found wrongly stays locked
		t.Helper()
		for i, ref := range refs {
			if Find(s, 7, i.group, i.key) != ref || Find(s, 7, i.group, []byte(i.key)) != ref {
				t.Errorf("group %d, key of %d bytes: record %d is not found", i.group, len(i.key), ref)
			}
			r := s.Acquire(7, i.group, i.key, false)
			if r != s.At(ref) {
				t.Fatalf("group %d, key of %d bytes: record %d is not found without the lock", i.group, len(i.key), ref)
			} else {
				r.Unlock()
			}
			if s.Acquire(7, i.group, i.key, true) != nil || s.Acquire(8, i.group, i.key, false) != nil {
				t.Fatalf("group %d, key of %d bytes is found on the other clock, or by another tag", i.group, len(i.key))
			}
			if Find(s, 8, i.group, i.key) != 0 || Find(s, 7, i.group, i.key+"c") != 0 {
				t.Errorf("group %d, key of %d bytes is found by another name", i.group, len(i.key))
			}
		}
	}
	check()
	for i, ref := range refs {
		s.At(ref).Lock()
		s.Remove(table, 7, ref)
		delete(refs, i)
		if Find(s, 7, i.group, i.key) != 0 || s.Acquire(7, i.group, i.key, false) != nil {
			t.Fatalf("group %d, key of %d bytes is found after its removal", i.group, len(i.key))
		}
		check()
	}
	if s.Arena.Len() != 0 || table.Len() != 0 {
		t.Errorf("%d chunks and %d records are left", s.Arena.Len(), table.Len())
	}
}

// TestAcquireComparesTheKeyUnderTheLock: while records are removed, and their memory is used
// for other keys at once, Acquire returns only records of the key. Pages come and go, and the
// index grows and shrinks meanwhile.
func TestAcquireComparesTheKeyUnderTheLock(t *testing.T) {
	const steps = 10_000
	for _, size := range []int{1, inlineKey, 100} {
		table := newTable(0, 0)
		group, _ := table.Group("g", 1000)
		s := table.Shard(0)
		keys := []string{strings.Repeat("a", size), strings.Repeat("b", size)}
		tags := []uint32{1 << 20, 2 << 20}
		insert := func(tag uint32, key string) {
			if !s.Reserve(table, tag, 1, KeyChunks(len(key))) {
				t.Error("no room")
			}
			s.At(Insert(s, tag, group, key)).Unlock()
		}
		remove := func(tag uint32, key string) {
			ref := Find(s, tag, group, key)
			s.At(ref).Lock()
			s.Remove(table, tag, ref)
		}
		insert(tags[0], keys[0])
		var readers sync.WaitGroup
		done := make(chan struct{})
		found := make([]int, len(keys))
		for i, key := range keys {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					runtime.Gosched()
					for range 20 {
						r := s.Acquire(tags[i], group, key, false)
						if r == nil {
							continue
						}
						got := string(s.AppendKey(nil, r))
						r.Unlock()
						if got != key {
							t.Errorf("the record of %q is found for %q", got, key)
							return // thousands of errors would take minutes
						}
						found[i]++
					}
				}
			})
		}
		for step := range steps {
			s.Lock()
			remove(tags[step%2], keys[step%2])
			insert(tags[1-step%2], keys[1-step%2])
			if step%64 == 0 {
				n := uint32(300)
				if step%2048 == 0 {
					n = maxBlocks * blockSlots // which splits a part
				}
				const odd = 0x9e3779b1 // tags are spread
				for i := range n {
					insert(i*odd|1, strings.Repeat("c", size))
				}
				for i := range n {
					remove(i*odd|1, strings.Repeat("c", size))
				}
				for p := range s.eachPart {
					s.shrink(table, p)
				}
			}
			s.Unlock()
		}
		close(done)
		readers.Wait()
		t.Logf("keys of %d bytes are found %d times", size, found)
	}
}

// TestGroupKeepsItsLongestWindow: a record stays for the longest window of its group.
func TestGroupKeepsItsLongestWindow(t *testing.T) {
	table := newTable(0, 0)
	s := table.Shard(0)
	group, _ := table.Group("g", 1000)
	for _, c := range []struct {
		name   string
		window int64
		same   bool
		longer bool
	}{{"other", 1, false, false}, {"g", 5000, true, true}, {"g", 10, true, false}, {"g", 5000, true, false}} {
		if got, longer := table.Group(c.name, c.window); got == group != c.same || longer != c.longer {
			t.Fatalf("%+v: got %d, %t beside %d", c, got, longer, group)
		}
	}
	s.Reserve(table, 1, 1, 1)
	r := s.At(Insert(s, 1, group, "key"))
	r.Add(&s.Arena, 100, 100, 1)
	s.Recorded(table, r, true, false)
	r.Unlock()
	if n := table.Sweep(5099); n != 0 || table.Len() != 1 {
		t.Errorf("%d removed before the longest window was over", n)
	}
	if n := table.Sweep(5100); n != 1 || table.Len() != 0 || table.Bytes() != 0 {
		t.Errorf("%d removed, %d held in %d bytes, want 1, 0 and 0", n, table.Len(), table.Bytes())
	}
}

// TestSweepEndsAtAnySize: Sweep passes the index once, however many slots there are.
func TestSweepEndsAtAnySize(t *testing.T) {
	for _, records := range []int{1, 300, 400, 600, 1200, 5000} {
		r := rand.New(rand.NewPCG(1, 2))
		table := newTable(0, 0)
		s := table.Shard(0)
		group, _ := table.Group("g", 1000)
		for i := range records {
			tag := r.Uint32()
			s.Reserve(table, tag, 1, 0)
			s.At(Insert(s, tag, group, filledKey(i))).Unlock()
		}
		done := make(chan struct{})
		go func() { table.Sweep(0); close(done) }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("no end with %d slots", s.indexBytes()/slotSize)
		}
	}
}

// TestCapsBoundKeysAndBytes: the caps hold, and returned room can be taken again.
func TestCapsBoundKeysAndBytes(t *testing.T) {
	table := newTable(2, 100)
	if !table.TakeKeys(2) || table.TakeKeys(1) {
		t.Error("a cap of 2 keys does not hold 2")
	}
	table.GiveKeys(1)
	if !table.TakeKeys(1) {
		t.Error("a returned key cannot be taken again")
	}
	if !table.Take(100) || table.Take(1) {
		t.Error("a cap of 100 bytes does not hold 100")
	}
	table.Give(1)
	if !table.Take(1) || table.Bytes() != 100 {
		t.Errorf("a returned byte cannot be taken again: %d taken", table.Bytes())
	}
}

// TestVisitSeesWhatStays: a visit in many steps sees each record that stays, once and with
// its whole key, while others come and go and the index grows.
func TestVisitSeesWhatStays(t *testing.T) {
	table := newTable(0, 0)
	table.Group("g", 1000)
	s := table.Shard(0)
	r := rand.New(rand.NewPCG(1, 2))
	tagOf := map[string]uint32{}
	insert := func(key string) {
		tagOf[key] = r.Uint32() &^ min(uint32(len(tagOf)%4), 1) // parts differ in size
		if !s.Reserve(table, tagOf[key], 1, KeyChunks(len(key))) {
			t.Fatal("no room")
		}
		s.At(Insert(s, tagOf[key], 0, key)).Unlock()
	}
	remove := func(key string) {
		ref := Find(s, tagOf[key], 0, key)
		s.At(ref).Lock()
		s.Remove(table, tagOf[key], ref)
	}
	const stay = 1200
	for i := range stay {
		insert(fmt.Sprint("stays", i) + strings.Repeat("x", i))
		insert(fmt.Sprint("goes", i))
	}
	seen := map[string]int{}
	const steps = 100
	for i := range steps {
		const tags = 1 << 32
		s.Visit(uint64(i)*tags/steps, uint64(i+1)*tags/steps, func(r *Record) {
			seen[string(s.AppendKey(nil, r))]++
		})
		for j := i * stay / steps; j < (i+1)*stay/steps; j++ {
			remove(fmt.Sprint("goes", j))
			insert(fmt.Sprint("comes", j))
			insert(fmt.Sprint("comes too", j))
		}
	}
	for i := range stay {
		if key := fmt.Sprint("stays", i) + strings.Repeat("x", i); seen[key] != 1 {
			t.Errorf("record %d was visited %d times, want 1", i, seen[key])
		}
	}
}
