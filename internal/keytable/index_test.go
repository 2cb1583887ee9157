package keytable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// filled is a shard of keys 0, 1, … with random tags.
type filled struct {
	*testing.T
	*Shard
	table *Table
	group uint32
	tags  []uint32
	skew  bool // three quarters of the tags are even, so that one part is split more often
}

func newFilled(t *testing.T) *filled {
	table := newTable(0, 0)
	group, _ := table.Group("g", 1000)
	return &filled{t, table.Shard(0), table, group, nil, false}
}

func filledKey(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)) }

// insert adds the next key, with an entry at an instant.
func (f *filled) insert(r *rand.Rand, now int64) {
	f.Helper()
	tag := r.Uint32()
	if f.skew && len(f.tags)%4 > 0 {
		tag &^= 1
	}
	f.insertAs(tag, now)
}

// insertAs adds the next key with a tag, and an entry at an instant.
func (f *filled) insertAs(tag uint32, now int64) {
	f.Helper()
	if !f.Reserve(f.table, tag, 1, 0) {
		f.Fatal("no room")
	}
	record := f.At(Insert(f.Shard, tag, f.group, filledKey(len(f.tags))))
	record.Add(&f.Arena, now, now, 1)
	f.Recorded(f.table, record, true, false)
	record.Unlock()
	f.tags = append(f.tags, tag)
}

func (f *filled) has(i int) bool { return Find(f.Shard, f.tags[i], f.group, filledKey(i)) != 0 }

// sizes returns the number of slots of each part.
func (f *filled) sizes() map[*part]int {
	of := map[*part]int{}
	for p := range f.eachPart {
		of[p] = p.size()
	}
	return of
}

// TestGrowthMovesOnePart: an insertion moves the slots of one part, a block has at most
// blockSlots, its memory stays in use, and all keys are found afterwards.
func TestGrowthMovesOnePart(t *testing.T) {
	f, r := newFilled(t), rand.New(rand.NewPCG(1, 2))
	f.skew = true
	f.insert(r, 0)
	blocks := map[*uint64]bool{}
	for range 6 * maxBlocks * blockSlots {
		before := f.sizes()
		f.insert(r, 0)
		after := f.sizes()
		moved := 0
		for p, n := range before {
			if after[p] == 0 {
				moved += n
			}
		}
		if moved > maxBlocks*blockSlots {
			t.Fatalf("with %d keys an insertion moves %d slots, want at most %d", len(f.tags), moved, maxBlocks*blockSlots)
		}
		kept := 0
		for p := range f.eachPart {
			for _, b := range p.blocks() {
				switch first := &b.slots[0]; {
				case len(b.slots) > blockSlots:
					t.Fatalf("with %d keys a block has %d slots, want at most %d", len(f.tags), len(b.slots), blockSlots)
				case blocks[first]:
					kept++
				case len(b.slots) == blockSlots:
					blocks[first] = true
					kept++
				}
			}
		}
		if kept < len(blocks) {
			t.Fatalf("with %d keys %d of %d full blocks are in use", len(f.tags), kept, len(blocks))
		}
	}
	for i, tag := range f.tags {
		record := f.Acquire(tag, f.group, string(filledKey(i)), false)
		if !f.has(i) || record == nil {
			t.Fatalf("key %d of %d is not found", i, len(f.tags))
		}
		record.Unlock()
	}
	if got, want := f.table.Bytes(), int64(f.indexBytes()+len(f.tags)*recordSize); got < want || got > want+want/20 {
		t.Errorf("%d bytes are counted, want about %d", got, want)
	}
}

// TestPartsShrink: slots of removed records are given back, and all of them with the last.
func TestPartsShrink(t *testing.T) {
	f, r := newFilled(t), rand.New(rand.NewPCG(3, 4))
	const keys = 10 * maxBlocks * blockSlots
	for i := range keys {
		f.insert(r, int64(i%16/15)*5000)
	}
	full := f.indexBytes()
	for range 2 * f.steps() {
		f.sweep(f.table, 1000, false, 1)
	}
	for i := range f.tags {
		if f.has(i) != (i%16 == 15) {
			t.Fatalf("key %d is found: %t", i, f.has(i))
		}
	}
	for range 5 { // each joins halves of parts once
		f.endPass()
	}
	if got := f.indexBytes(); 4*got > full {
		t.Errorf("%d bytes of slots for %d records, %d before", got, f.Len(), full)
	}
	if n := f.table.Sweep(6000); n != keys/16 || f.table.Bytes() != 0 {
		t.Errorf("%d removed, %d bytes left; want %d and 0", n, f.table.Bytes(), keys/16)
	}
}

// TestPartShrinksAlone: a part that is no half gives back blocks, and then slots of the last.
func TestPartShrinksAlone(t *testing.T) {
	f, r := newFilled(t), rand.New(rand.NewPCG(11, 12))
	for i := range 900 {
		f.insert(r, int64(i%10)*1000) // the keys expire by tenths
	}
	for _, c := range []struct {
		tenths int
		blocks uint32
		slots  int
	}{{0, 3, 3 * blockSlots}, {7, 2, 2 * blockSlots}, {9, 1, blockSlots / 2}} {
		f.table.Sweep(int64(c.tenths) * 1000)
		if p := f.part(0); f.Len() != 900-90*c.tenths || p.count != c.blocks || p.size() > c.slots {
			t.Errorf("%d tenths expired: %d records in %d blocks, %d slots; want %d blocks, at most %d slots",
				c.tenths, f.Len(), p.count, p.size(), c.blocks, c.slots)
		}
	}
}

// TestHalvesOfOneLevelAreJoined: a half with few records waits until the other half, which was
// split further, is one part again.
func TestHalvesOfOneLevelAreJoined(t *testing.T) {
	f, r := newFilled(t), rand.New(rand.NewPCG(13, 14))
	const keys, every = 7500, 100
	for i := range keys {
		tag := r.Uint32() &^ 1
		if i%every == 0 {
			tag |= uint32(i / every % 2)
		}
		f.insertAs(tag, int64(i%every/(every-1)+(every-i%every)/every)*5000)
	}
	for range 3 * f.steps() {
		f.sweep(f.table, 1000, false, 1)
	}
	f.endPass()
	for i := range keys {
		if stays := i%every == 0 || i%every == every-1; f.has(i) != stays {
			t.Fatalf("key %d of %d is found: %t", i, keys, f.has(i))
		}
	}
}

// endPass sweeps to the end of the present pass, at which nothing more expires.
func (f *filled) endPass() {
	f.quiet = 0
	for f.sweep(f.table, 0, false, 1); f.nextPart+f.nextBlock+f.hand > 0; {
		f.sweep(f.table, 0, false, 1)
	}
}

// TestPassGoesOnWhileTheIndexGrows: a growing part does not make the pass begin anew.
func TestPassGoesOnWhileTheIndexGrows(t *testing.T) {
	f, r := newFilled(t), rand.New(rand.NewPCG(5, 6))
	const keys, every = 8 * maxBlocks * blockSlots, 8
	for i := range keys {
		f.insert(r, int64(min(i%every, 1))*10_000)
	}
	const more = keys * 2 / 3
	for range more {
		f.insert(r, 10_000)
		f.SweepStep(f.table, 1000, false)
	}
	if left := f.Len() - more - keys/every*(every-1); left > 0 {
		t.Errorf("%d of %d old keys are left", left, keys/every)
	}
}

// TestPassSeesWhatASplitMoves: a split in the middle of a pass hides no record from it.
func TestPassSeesWhatASplitMoves(t *testing.T) {
	f, r := newFilled(t), rand.New(rand.NewPCG(7, 8))
	f.insert(r, 0)
	for len(f.sizes()) == 1 {
		f.insert(r, 0)
		p := f.part(0)
		for len(f.sizes()) == 1 && f.nextBlock*blockSlots+f.hand < p.size()/2 {
			f.sweep(f.table, 0, false, 1)
		}
	}
	for f.nextPart == 0 && f.Len() > 0 {
		f.sweep(f.table, 1000, false, 1)
	}
	for f.nextPart > 0 {
		f.sweep(f.table, 1000, false, 1)
	}
	if f.Len() != 0 {
		t.Errorf("the pass has missed %d of %d records", f.Len(), len(f.tags))
	}
}

// TestAlikeTags: a block whose tags no split tells apart is full at some time, and all of its
// keys are found.
func TestAlikeTags(t *testing.T) {
	for name, tag := range map[string]func(i int) uint32{
		"high bits differ": func(i int) uint32 { return uint32(i) << maxBits },
		"low bits differ":  func(i int) uint32 { return uint32(i) },
		"none differ":      func(int) uint32 { return 7 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFilled(t)
			keys := 0
			for ; keys < 2*blockSlots && f.Reserve(f.table, tag(keys), 1, 0); keys++ {
				f.insertAs(tag(keys), 0)
			}
			for i := range keys {
				if !f.has(i) {
					t.Fatalf("key %d is not found", i)
				}
			}
			if keys < blockSlots*3/4 || keys > blockSlots && name == "none differ" {
				t.Errorf("a block holds %d keys", keys)
			}
		})
	}
}
