package weir

// due is a heap of operations, the one that is over first in front.
type due []*operation

func (h due) Len() int           { return len(h) }
func (h due) Less(i, j int) bool { return h[i].until < h[j].until }
func (h due) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *due) Push(o any) {
	o.(*operation).place = len(*h)
	*h = append(*h, o.(*operation))
}

func (h *due) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}
