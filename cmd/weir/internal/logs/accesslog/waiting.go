package accesslog

import "container/heap"

// waiting holds the entries of one file that wait to be sorted. Entries that came in order are a
// queue, so that only late lines take the steps of a heap: a heap of all entries took a tenth of
// the time of a log in order.
type waiting struct {
	queue []*Entry // from head on, ascending
	head  int
	late  timeline[*Entry]
}

func newWaiting() waiting { return waiting{late: timeline[*Entry]{compare: (*Entry).compare}} }

// Len returns the number of entries.
func (w *waiting) Len() int { return len(w.queue) - w.head + w.late.Len() }

// first returns the first entry, or nil.
func (w *waiting) first() *Entry {
	late := w.late.first()
	if w.head == len(w.queue) {
		return late
	}
	next := w.queue[w.head]
	if late != nil && late.compare(next) < 0 {
		return late
	}
	return next
}

// push adds an entry. Its line is behind those of all others.
func (w *waiting) push(e *Entry) {
	n := len(w.queue)
	if n > w.head && e.At < w.queue[n-1].At {
		heap.Push(&w.late, e)
		return
	}
	if n == cap(w.queue) && w.head*2 > n { // most of the memory is free
		n = copy(w.queue, w.queue[w.head:])
		w.queue = w.queue[:n]
		w.head = 0
	}
	w.queue = append(w.queue, e)
}

// pop removes the first entry and returns it. There is one.
func (w *waiting) pop() *Entry {
	e := w.first()
	if e == w.late.first() {
		heap.Pop(&w.late)
		return e
	}
	w.head++
	if w.head == len(w.queue) {
		w.queue = w.queue[:0]
		w.head = 0
	}
	return e
}
