// Package slab keeps many small values of one type in a few large pages. The garbage
// collector scans pages in place of values, and a reference takes four bytes, not eight.
//
// The trade-off: values must be freed by hand, a pointer from At is valid only until the
// next Alloc, and a slab is not safe for concurrent use. Plain pointers need no care, but
// eight bytes each, and the collector scans each value.
package slab

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
	firstPage = 4               // values in the first page at first; it doubles up to perPage
	pageBytes = 8192            // a size class of Go's allocator, so that little is lost after a page
)

// perPage is the number of values of that size in a full page.
func perPage(size int) int { return min(1<<pageBits, pageBytes/size) }

// Slab holds values of type T. References start at 1; 0 is none. The zero Slab is empty
// and ready.
type Slab[T any, P Linked[T]] struct {
	values [][]T    // the pages; first, so that At reads one field of the slab
	pages  []page   // the state of each page
	open   []uint32 // pages with a free place, the next to be used last
	gone   []uint32 // numbers of freed pages
	live   int

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
	return &s.values[ref>>pageBits][ref&placeMask]
}

// Len is the number of allocated values.
func (s *Slab[T, P]) Len() int { return s.live }

// Reserve reports whether n values can be allocated, also if others are freed before
// that. It takes pages from b if it needs some. size is the number of bytes of a T. The
// next Reserve replaces this one.
func (s *Slab[T, P]) Reserve(n, size int, b Budget) bool {
	s.promised = n
	free := 0
	for i := len(s.open) - 1; i >= 0 && free < n; i-- {
		p := s.open[i]
		free += len(s.values[p]) - int(s.pages[p].used)
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

// grow makes room for more values: it doubles the first page up to its full size, then
// adds pages. It returns the number of added places.
func (s *Slab[T, P]) grow(size int, b Budget) (int, bool) {
	if len(s.values) == 1 && s.values[0] != nil && len(s.values[0]) < perPage(size) {
		n := len(s.values[0])
		more := min(n, perPage(size)-n)
		if !b.Take(more * size) {
			return 0, false
		}
		values := make([]T, n+more)
		copy(values, s.values[0])
		if int(s.pages[0].used) == n {
			s.open = append(s.open, 0)
		}
		s.values[0] = values
		return more, true
	}
	n := perPage(size)
	if len(s.values) == 0 {
		n = firstPage
	}
	if !b.Take(n * size) {
		return 0, false
	}
	i := uint32(len(s.values))
	if last := len(s.gone) - 1; last >= 0 {
		i = s.gone[last]
		s.gone = s.gone[:last]
	} else {
		s.values = append(s.values, nil)
		s.pages = append(s.pages, page{})
	}
	s.values[i] = make([]T, n)
	s.open = append(s.open, i)
	return n, true
}

// Alloc returns a reference to a zero value. Reserve must have made room.
func (s *Slab[T, P]) Alloc() uint32 {
	last := len(s.open) - 1
	i := s.open[last]
	p := &s.pages[i]
	place := p.fresh
	if p.free != 0 {
		place = p.free - 1
		v := P(&s.values[i][place])
		p.free = *v.Link()
		var zero T
		*v = zero
	} else {
		p.fresh++
	}
	p.used++
	s.live++
	s.promised = max(s.promised-1, 0)
	if int(p.used) == len(s.values[i]) {
		s.open = s.open[:last]
	}
	return i<<pageBits + place + 1
}

// Free frees the value. A page that becomes empty is freed if the other pages have room
// for half a page of values and for the reserved ones. So a number of values that goes up
// and down does not allocate and free pages all the time.
func (s *Slab[T, P]) Free(ref uint32, size int, b Budget) {
	ref--
	i := ref >> pageBits
	p := &s.pages[i]
	if int(p.used) == len(s.values[i]) {
		s.open = append(s.open, i)
	}
	*P(&s.values[i][ref&placeMask]).Link() = p.free
	p.free = ref&placeMask + 1
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
			n -= len(s.values[o]) - int(s.pages[o].used)
		}
		if n <= 0 {
			return true
		}
	}
	return false
}

// Release frees all pages; no value may be allocated.
func (s *Slab[T, P]) Release(size int, b Budget) {
	for _, values := range s.values {
		b.Give(len(values) * size)
	}
	*s = Slab[T, P]{}
}

// drop frees page i, which is empty.
func (s *Slab[T, P]) drop(i uint32, size int, b Budget) {
	b.Give(len(s.values[i]) * size)
	s.values[i], s.pages[i] = nil, page{}
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
