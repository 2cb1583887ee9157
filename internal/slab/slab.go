// Package slab keeps many small values of one type in a few large pages. The garbage
// collector scans pages in place of values, and a reference takes four bytes, not eight.
//
// The trade-off: values must be freed by hand. Plain pointers need no care, but eight bytes
// each, and the collector scans each value.
//
// A value never moves. The memory of a freed value stays one of its type: it becomes another
// value, or garbage with its page. So At and Find are safe beside all other methods, which
// need a lock.
package slab

import (
	"slices"
	"sync/atomic"
)

// Linked is a value that can hold a reference while it is free.
type Linked[T any] interface {
	*T
	Link() *uint32
}

// Budget bounds the bytes that slabs and other users take together.
type Budget interface {
	// Take reports whether n more bytes may be used, and if so counts them.
	Take(n int) bool
	// Give returns n bytes.
	Give(n int)
}

const (
	pageBits  = 7
	placeMask = 1<<pageBits - 1 // a value's place in its page
	firstPage = 4               // values in the first page; further ones double the slab, up to perPage
	pageBytes = 8192            // a size class of Go's allocator, so that little is lost after a page
)

// perPage is the number of values of that size in a full page.
func perPage(size int) int { return min(1<<pageBits, pageBytes/size) }

// Slab holds values of type T. References start at 1; 0 is none. The zero Slab is empty
// and ready.
type Slab[T any, P Linked[T]] struct {
	// values are the pages, nil if they were freed. Readers hold no lock: the slice grows
	// behind its end or is replaced, and an element that was read never changes.
	values atomic.Pointer[[][]T]
	_      [56]byte // At shares no cache line with the fields that Alloc and Free change

	pages  []page   // the state of each page
	open   []uint32 // pages with a free place, the next to be used last
	gone   []uint32 // numbers of freed pages
	live   int
	places int // in all pages

	promised int // places reserved by the last Reserve and not yet allocated
}

// page is the state of a page. Free places form a list through their links.
type page struct {
	free  uint32 // 1 + place of the first freed value; 0 = none
	fresh uint32 // places from here on were never used
	used  uint32
}

// At returns the value of an allocated reference.
func (s *Slab[T, P]) At(ref uint32) P {
	ref--
	return &(*s.values.Load())[ref>>pageBits][ref&placeMask]
}

// Find returns the value of a reference that was allocated once, or nil if its page was
// freed.
func (s *Slab[T, P]) Find(ref uint32) P {
	values := s.values.Load()
	if values == nil {
		return nil
	}
	page, place := (ref-1)>>pageBits, (ref-1)&placeMask
	if int(page) >= len(*values) || int(place) >= len((*values)[page]) {
		return nil
	}
	return &(*values)[page][place]
}

// all returns the pages.
func (s *Slab[T, P]) all() [][]T {
	if values := s.values.Load(); values != nil {
		return *values
	}
	return nil
}

// set replaces page i, or adds it.
func (s *Slab[T, P]) set(i uint32, values []T) {
	all := s.all()
	if int(i) == len(all) {
		all = append(all, values) // behind the end that readers have seen
	} else {
		s.places -= len(all[i])
		all = slices.Clone(all)
		all[i] = values
	}
	s.places += len(values)
	s.values.Store(&all)
}

// free is the number of free places of page i.
func (s *Slab[T, P]) free(i uint32) int { return len(s.all()[i]) - int(s.pages[i].used) }

// Len is the number of allocated values.
func (s *Slab[T, P]) Len() int { return s.live }

// Reserve reports whether n values can be allocated, also if others are freed before
// that. It takes pages from b if it needs some. size is the number of bytes of a T. The
// next Reserve replaces this one.
func (s *Slab[T, P]) Reserve(n, size int, b Budget) bool {
	s.promised = n
	free := 0
	for i := len(s.open) - 1; i >= 0 && free < n; i-- {
		free += s.free(s.open[i])
	}
	for free < n {
		grown, ok := s.grow(size, b)
		if !ok {
			return false
		}
		free += grown
	}
	return true
}

// grow adds a page: as many places as there are, and at most a full page. It returns the
// number of added places.
func (s *Slab[T, P]) grow(size int, b Budget) (int, bool) {
	n := min(max(s.places, firstPage), perPage(size))
	if !b.Take(n * size) {
		return 0, false
	}
	i := uint32(len(s.pages))
	if last := len(s.gone) - 1; last >= 0 {
		i = s.gone[last]
		s.gone = s.gone[:last]
	} else {
		s.pages = append(s.pages, page{})
	}
	s.set(i, make([]T, n))
	s.open = append(s.open, i)
	return n, true
}

// Alloc returns a reference to a value, which is as its last user left it, with another
// Link. Reserve must have made room.
func (s *Slab[T, P]) Alloc() uint32 {
	last := len(s.open) - 1
	i := s.open[last]
	p := &s.pages[i]
	place := p.fresh
	if p.free != 0 {
		place = p.free - 1
		p.free = *P(&s.all()[i][place]).Link()
	} else {
		p.fresh++
	}
	p.used++
	s.live++
	s.promised = max(s.promised-1, 0)
	if s.free(i) == 0 {
		s.open = s.open[:last]
	}
	return i<<pageBits + place + 1
}

// Free frees the value. A page that becomes empty is freed if the other pages have room
// for half a page of values and for the reserved ones. So a number of values that goes up
// and down does not allocate and free pages all the time.
func (s *Slab[T, P]) Free(ref uint32, size int, b Budget) {
	i, place := (ref-1)>>pageBits, (ref-1)&placeMask
	if s.free(i) == 0 {
		s.open = append(s.open, i)
	}
	p := &s.pages[i]
	*s.At(ref).Link() = p.free
	p.free = place + 1
	p.used--
	s.live--
	if p.used == 0 && s.roomBeside(i, max(s.promised, perPage(size)/2)) {
		s.drop(i, size, b)
	}
}

// roomBeside reports whether the pages other than i have n free places.
func (s *Slab[T, P]) roomBeside(i uint32, n int) bool {
	for _, o := range s.open {
		if o != i {
			n -= s.free(o)
		}
		if n <= 0 {
			return true
		}
	}
	return false
}

// Release frees all pages; no value may be allocated.
func (s *Slab[T, P]) Release(size int, b Budget) {
	b.Give(s.places * size)
	s.values.Store(nil)
	s.pages, s.open, s.gone, s.places, s.promised = nil, nil, nil, 0, 0
}

// drop frees page i, which is empty.
func (s *Slab[T, P]) drop(i uint32, size int, b Budget) {
	b.Give(len(s.all()[i]) * size)
	s.set(i, nil)
	s.pages[i] = page{}
	s.gone = append(s.gone, i)
	for j, o := range s.open {
		if o == i {
			last := len(s.open) - 1
			s.open[j] = s.open[last]
			s.open = s.open[:last]
			return
		}
	}
}
