package accesslog

import "container/heap"

// timeline returns elements in order, in whatever order they come: it is a heap. Each
// element takes a number of steps that grows with the logarithm of the elements that wait,
// also in a log that runs backward.
type timeline[T any] struct {
	compare func(a, b T) int
	all     []T // as container/heap orders them
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (t *timeline[T]) Len() int           { return len(t.all) }
func (t *timeline[T]) Less(i, j int) bool { return t.compare(t.all[i], t.all[j]) < 0 }
func (t *timeline[T]) Swap(i, j int)      { t.all[i], t.all[j] = t.all[j], t.all[i] }
func (t *timeline[T]) Push(v any)         { t.all = append(t.all, v.(T)) }

func (t *timeline[T]) Pop() any {
	last := len(t.all) - 1
	v := t.all[last]
	clear(t.all[last:])
	t.all = t.all[:last]
	return v
}

// add adds an element.
func (t *timeline[T]) add(v T) { heap.Push(t, v) }

// first returns the first element; the zero T if there is none.
func (t *timeline[T]) first() (v T) {
	if len(t.all) > 0 {
		v = t.all[0]
	}
	return v
}

// pop removes the first element.
func (t *timeline[T]) pop() T { return heap.Pop(t).(T) }
