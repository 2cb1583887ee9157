package slab

import (
	"math/rand/v2"
	"testing"
)

type value struct {
	n    int
	link uint32
}

func (v *value) Link() *uint32 { return &v.link }

const valueSize = 16

// purse is a budget that counts the bytes taken.
type purse struct{ left int }

func (p *purse) Take(n int) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	return true
}
func (p *purse) Give(n int) { p.left += n }

// TestSlabKeepsValues: values keep their references and places while others are allocated and
// freed, and all memory is freed in the end.
func TestSlabKeepsValues(t *testing.T) {
	const all = 1 << 20
	b := &purse{left: all}
	var s Slab[value, *value]
	r := rand.New(rand.NewPCG(1, 2))
	live, steps := map[uint32]*value{}, map[uint32]int{}
	for step := range 200_000 {
		grow := step/20_000%2 == 0
		if (r.IntN(3) > 0) == grow {
			if !s.Reserve(1, valueSize, b) {
				t.Fatalf("step %d: %d bytes left, but no room", step, b.left)
			}
			ref := s.Alloc()
			if _, used := live[ref]; used || ref == 0 {
				t.Fatalf("step %d: reference %d is not free", step, ref)
			}
			s.At(ref).n = step
			live[ref] = s.At(ref)
			steps[ref] = step
			continue
		}
		for ref, v := range live {
			if got := s.At(ref); got != v || got != s.Find(ref) || got.n != steps[ref] {
				t.Fatalf("step %d: value %d has moved, or is %d, want %d", step, ref, got.n, steps[ref])
			}
			s.Free(ref, valueSize, b)
			delete(live, ref)
			break
		}
	}
	for ref := range live {
		s.Free(ref, valueSize, b)
	}
	if s.Len() != 0 || all-b.left > 2*perPage(valueSize)*valueSize {
		t.Errorf("all freed: %d live, %d bytes kept; want 0 and at most two pages", s.Len(), all-b.left)
	}
}

func TestReserveKeepsToTheBudget(t *testing.T) {
	b := &purse{left: 10 * valueSize}
	var s Slab[value, *value]
	got := 0
	for s.Reserve(1, valueSize, b) {
		s.Alloc()
		got++
	}
	if got != 2*firstPage {
		t.Errorf("a budget of 10 values gave %d, want %d: pages double", got, 2*firstPage)
	}
}

func TestReserveMany(t *testing.T) {
	b := &purse{left: 1 << 20}
	var s Slab[value, *value]
	for _, n := range []int{1, 3, 300, 1000} {
		if !s.Reserve(n, valueSize, b) {
			t.Fatalf("no room for %d", n)
		}
		for range n {
			s.Alloc()
		}
	}
	if s.Len() != 1304 {
		t.Errorf("%d live, want 1304", s.Len())
	}
}

// TestReserveOutlivesFree frees the last value of a page between Reserve and
// Alloc: the reserved place must be there.
func TestReserveOutlivesFree(t *testing.T) {
	b := &purse{left: 1 << 20}
	var s Slab[value, *value]
	full := perPage(valueSize)
	var refs []uint32
	for range full + 1 { // one page full, one value in a second
		s.Reserve(1, valueSize, b)
		refs = append(refs, s.Alloc())
	}
	s.Free(refs[0], valueSize, b) // one place in the first page
	if !s.Reserve(2, valueSize, b) {
		t.Fatal("no room for 2")
	}
	s.Free(refs[full], valueSize, b) // the second page is empty
	for range 2 {
		s.Alloc()
	}
	if s.Len() != full+1 {
		t.Errorf("%d live, want %d", s.Len(), full+1)
	}
}
