package window

import (
	"math/bits"
	"sync/atomic"
)

// Arena holds runs of words: the entries of histories, and long keys. Pages without pointers
// keep the garbage collector out, and a reference takes four bytes.
//
// All methods but Words need the lock of the arena's owner. Words is safe beside them for a
// run that the caller owns.
type Arena struct {
	// pages are the memory by page number, nil if a page was freed. Page 0 is never used. The
	// slice grows behind its end or is replaced, so a reader of a page needs no lock.
	pages  atomic.Pointer[[][]uint32]
	Budget Budget

	_ [32]byte // readers of pages share no cache line with fields that change

	// Spare is the number of bytes by which Alloc may exceed the budget.
	Spare  int64
	states []pageState
	open   [pagedClasses][]uint32 // pages of a class with a free run; the last is used next
	gone   []uint32               // numbers of freed pages
	empty  uint32                 // a page without runs that is kept for any class, or 0
}

// Budget bounds the bytes that arenas and other users take together.
type Budget interface {
	// TakeAbove reports whether n more bytes may be used, and if so counts them. They may exceed
	// the bound by spare.
	TakeAbove(spare int64, n int) bool
	// Give returns n bytes.
	Give(n int)
}

// Run is a reference to some words of an arena: its size class in the high bits, and below
// it the page and the place in the page in units of unitWords. 0 is none.
type Run uint32

const (
	unitWords = 4 // 16 bytes, the smallest run
	pageUnits = 256
	pageWords = pageUnits * unitWords
	wordBytes = 4

	placeBits = 26 // a gigabyte for each arena
	placeMask = 1<<placeBits - 1
	maxPages  = 1 << placeBits / pageUnits

	// Runs of the classes 0 … pagedClasses-1 share pages of their class: up to a quarter of a
	// page. Larger ones have a page of their own length each.
	pagedClasses = 12
)

// pageState is the arena's record of a page.
type pageState struct {
	class uint8
	used  uint16                 // runs in use
	place uint32                 // index in the open pages of its class, if a run is free
	free  [pageUnits / 64]uint64 // bit i is set if run i of the page is free
}

// classUnits is the size of a run: 1, 2, 3, 4, 6, 8, 12, 16 … units.
func classUnits(class int) int {
	if class == 0 {
		return 1
	}
	return (2 + (class-1)&1) << ((class - 1) / 2)
}

// classFor is the smallest class with runs of at least that many words.
func classFor(words int) int {
	class := 0
	for classUnits(class)*unitWords < words {
		class++
	}
	return class
}

// words is the number of words of the run.
func (r Run) words() int { return int(classWords[r>>placeBits]) }

// classWords are the numbers of words of all classes.
var classWords = func() (all [1 << (32 - placeBits)]uint64) {
	for class := range all {
		all[class] = uint64(classUnits(class) * unitWords)
	}
	return all
}()

// Words returns the memory of a run.
func (a *Arena) Words(r Run) []uint32 {
	place := r & placeMask
	page := (*a.pages.Load())[place/pageUnits]
	return page[place%pageUnits*unitWords:][:r.words()]
}

// Alloc returns a run of at least n words, which are not cleared. It reports false if the
// budget or the arena has no room.
func (a *Arena) Alloc(n int) (Run, bool) {
	class := classFor(n)
	if class >= pagedClasses {
		page, ok := a.add(classUnits(class) * unitWords)
		return Run(class<<placeBits) | Run(page*pageUnits), ok
	}
	open := a.open[class]
	if len(open) == 0 {
		page := a.empty
		if page == 0 {
			var ok bool
			if page, ok = a.add(pageWords); !ok {
				return 0, false
			}
		}
		a.empty = 0
		a.begin(page, class)
		open = a.open[class]
	}
	page := open[len(open)-1]
	s := &a.states[page]
	i := s.take()
	if int(s.used) == pageUnits/classUnits(class) {
		a.open[class] = open[:len(open)-1]
	}
	return Run(class<<placeBits) | Run(int(page)*pageUnits+i*classUnits(class)), true
}

// take takes the first free run.
func (s *pageState) take() int {
	s.used++
	for w := range s.free {
		if s.free[w] != 0 {
			i := bits.TrailingZeros64(s.free[w])
			s.free[w] &^= 1 << i
			return w*64 + i
		}
	}
	panic("window: a page with a free run has none")
}

// begin gives an empty page to a class.
func (a *Arena) begin(page uint32, class int) {
	s := &a.states[page]
	*s = pageState{class: uint8(class), place: uint32(len(a.open[class]))}
	for i := range pageUnits / classUnits(class) {
		s.free[i/64] |= 1 << (i % 64)
	}
	a.open[class] = append(a.open[class], page)
}

// pageBytes is the memory of a page of that many words, with the arena's record of it.
func pageBytes(words int) int { return words*wordBytes + 72 }

// add adds a page of that many words.
func (a *Arena) add(words int) (page uint32, ok bool) {
	var all [][]uint32
	if p := a.pages.Load(); p != nil {
		all = *p
	} else {
		all, a.states = make([][]uint32, 1, 4), make([]pageState, 1, 4)
	}
	if len(a.gone) == 0 && len(all) == maxPages || !a.Budget.TakeAbove(a.Spare, pageBytes(words)) {
		return 0, false
	}
	memory := make([]uint32, words)
	if last := len(a.gone) - 1; last >= 0 {
		page, a.gone = a.gone[last], a.gone[:last]
		all[page] = memory // a page that holds no run has no reader
		return page, true
	}
	page = uint32(len(all))
	all = append(all, memory)
	a.states = append(a.states, pageState{})
	a.pages.Store(&all)
	return page, true
}

// Free frees a run.
func (a *Arena) Free(r Run) {
	if r == 0 {
		return
	}
	page, class := uint32(r&placeMask)/pageUnits, int(r>>placeBits)
	if class >= pagedClasses {
		a.drop(page)
		return
	}
	s := &a.states[page]
	if int(s.used) == pageUnits/classUnits(class) {
		s.place = uint32(len(a.open[class]))
		a.open[class] = append(a.open[class], page)
	}
	i := int(r&placeMask) % pageUnits / classUnits(class)
	s.free[i/64] |= 1 << (i % 64)
	if s.used--; s.used > 0 {
		return
	}
	open := a.open[class]
	last := open[len(open)-1]
	open[s.place], a.states[last].place = last, s.place
	a.open[class] = open[:len(open)-1]
	if a.empty == 0 { // kept, so that runs that come and go add no pages
		a.empty = page
		return
	}
	a.drop(page)
}

// drop frees the memory of a page.
func (a *Arena) drop(page uint32) {
	all := *a.pages.Load()
	a.Budget.Give(pageBytes(len(all[page])))
	all[page] = nil
	a.gone = append(a.gone, page)
}

// Release frees all memory. No run may be in use.
func (a *Arena) Release() {
	if a.empty != 0 {
		a.drop(a.empty)
	}
	a.pages.Store(nil)
	a.states = nil
	a.open = [pagedClasses][]uint32{}
	a.gone = nil
	a.empty = 0
}

// unlimited is the budget of an arena for one history (Clone).
type unlimited struct{}

func (unlimited) TakeAbove(int64, int) bool { return true }
func (unlimited) Give(int)                  {}
