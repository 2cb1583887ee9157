package keytable

import (
	"bytes"
	"fmt"
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
				if !s.Reserve(table, 1, KeyChunks(size)) {
					t.Fatal("no room")
				}
				refs[id{group, key}] = Insert(s, 7, group, key)
			}
		}
	}
	check := func() {
		t.Helper()
		for i, ref := range refs {
			if Find(s, 7, i.group, i.key) != ref || Find(s, 7, i.group, []byte(i.key)) != ref {
				t.Errorf("group %d, key of %d bytes: record %d is not found", i.group, len(i.key), ref)
			}
			if Find(s, 8, i.group, i.key) != 0 || Find(s, 7, i.group, i.key+"c") != 0 {
				t.Errorf("group %d, key of %d bytes is found by another name", i.group, len(i.key))
			}
		}
	}
	check()
	for i, ref := range refs {
		s.Remove(table, 7, ref)
		delete(refs, i)
		if Find(s, 7, i.group, i.key) != 0 {
			t.Errorf("group %d, key of %d bytes is found after its removal", i.group, len(i.key))
		}
		check()
	}
	if s.Arena.Len() != 0 || table.Len() != 0 {
		t.Errorf("%d chunks and %d records are left", s.Arena.Len(), table.Len())
	}
}

// TestGroupKeepsItsLongestWindow: a record stays for the longest window of its group.
func TestGroupKeepsItsLongestWindow(t *testing.T) {
	table := newTable(0, 0)
	s := table.Shard(0)
	group := table.Group("g", 1000)
	if table.Group("other", 1) == group || table.Group("g", 5000) != group || table.Group("g", 10) != group {
		t.Fatal("groups are mixed up")
	}
	s.Reserve(table, 1, 1)
	r := s.At(Insert(s, 1, group, "key"))
	r.Add(&s.Arena, 100, 100, 1)
	s.Recorded(table, r, true, false)
	if n := table.Sweep(5099); n != 0 || table.Len() != 1 {
		t.Errorf("%d removed before the longest window was over", n)
	}
	if n := table.Sweep(5100); n != 1 || table.Len() != 0 || table.Bytes() != 0 {
		t.Errorf("%d removed, %d held in %d bytes, want 1, 0 and 0", n, table.Len(), table.Bytes())
	}
}

// TestSweepEndsAtAnySize: Sweep passes the index once, however many slots there are.
func TestSweepEndsAtAnySize(t *testing.T) {
	for _, size := range []int{1, 1023, 1024, 1025, 2049, 5000} {
		table := newTable(0, 0)
		if !table.shards[0].resizeIndex(table, size) {
			t.Fatal("no room")
		}
		done := make(chan struct{})
		go func() { table.Sweep(0); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("no end with %d slots", size)
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
