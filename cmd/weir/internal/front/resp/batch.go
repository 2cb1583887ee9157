package resp

import (
	"hash/maphash"
	"slices"
	"sync"
)

// Bounds of the concurrent decisions of one connection.
const (
	maxBatch  = 256 // commands in a batch
	maxQueues = 64  // queues that run concurrently
)

// waiting is a command of a batch with its answer. The commands of a batch are of one
// pipeline, and are decided concurrently.
type waiting struct {
	cmd  *command
	args []string
	out  []byte
}

// enqueue adds a command to the batch.
func (c *session) enqueue(cmd *command, args []string) {
	c.batch = append(c.batch, waiting{cmd: cmd, args: slices.Clone(args)})
	if len(c.batch) == maxBatch {
		c.flush()
	}
}

// flush decides the commands of the batch, and appends their answers in order.
func (c *session) flush() {
	w := c.batch
	switch len(w) {
	case 0:
		return
	case 1:
		c.out = w[0].cmd.run(c.server, c.out, w[0].args)
	default:
		c.server.decideTogether(w)
		for i := range w {
			c.out = append(c.out, w[i].out...)
		}
	}
	clear(w)
	c.batch = w[:0]
}

// queueSeed is random, so that clients cannot predict the queue of a key.
var queueSeed = maphash.MakeSeed()

// decideTogether decides commands concurrently, but those about one key in order: a check
// after a record must count it.
func (s *Server) decideTogether(w []waiting) {
	var queues [maxQueues][]*waiting
	for i := range w {
		q := w[i].queue() % maxQueues
		queues[q] = append(queues[q], &w[i])
	}
	var all sync.WaitGroup
	for _, queue := range queues {
		if len(queue) == 0 {
			continue
		}
		all.Go(func() {
			for _, each := range queue {
				each.out = each.cmd.run(s, nil, each.args)
			}
		})
	}
	all.Wait()
}

// queue returns a hash that is the same for all commands about one key, for any order of
// their dimensions.
func (w *waiting) queue() uint64 {
	h := maphash.String(queueSeed, w.args[0])
	if !w.cmd.syntax.token {
		var a arguments
		rest, _ := a.cutOptions(w.args[1:], allOptions) // after an error no key matters
		pairs, _ := cutNumbers(rest)
		for _, pair := range pairs {
			h += maphash.String(queueSeed, pair)
		}
	}
	return h
}
