package server

import (
	"errors"
	"sync/atomic"
)

// errBusy is the answer to a request when as many as may be wait for the store.
var errBusy = errors.New("weir: as many requests are under way as may be")

// room bounds how many requests wait for a decision at once. Whoever finds no
// room is told so at once: a queue would only add its length to every answer,
// while callers give up and ask again. Requests that are still being sent take no
// room, so slow clients cannot fill it.
type room struct {
	most  int64
	taken atomic.Int64
	shed  atomic.Int64 // how often there was none
}

// enter reports whether there is room; then leave must follow.
func (r *room) enter() bool {
	if r.taken.Add(1) <= r.most {
		return true
	}
	r.taken.Add(-1)
	r.shed.Add(1)
	return false
}

func (r *room) leave() { r.taken.Add(-1) }
