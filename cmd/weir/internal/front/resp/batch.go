package resp

import (
	"slices"

	"github.com/weirlimit/weir/internal/enforce"
)

const (
	maxBatch  = 256 // commands in a batch
	keptBatch = 16  // commands for which a connection keeps memory
)

// waiting is a decision of a batch, with its arguments or their error.
type waiting struct {
	cmd  *command
	args arguments
	err  error
}

// enqueue adds a decision to the batch. The decisions of a batch are of one pipeline, and are
// made in one call of the store.
func (c *session) enqueue(cmd *command, args []string) {
	w := waiting{cmd: cmd}
	w.args, w.err = c.server.readArguments(slices.Clone(args), cmd.syntax)
	c.batch = append(c.batch, w)
	if len(c.batch) == maxBatch {
		c.flush()
	}
}

// flush makes the decisions of the batch, and appends their answers in order.
func (c *session) flush() {
	batch, s := c.batch, c.server
	if len(batch) == 0 {
		return
	}
	busy := s.config.Capacity.Enter()
	if busy == nil {
		defer s.config.Capacity.Leave()
	}
	items := make([]enforce.Item, len(batch))
	for i := range batch {
		w := &batch[i]
		if w.err == nil {
			w.err = busy
		}
		if items[i].Err = w.err; w.err == nil {
			items[i].Rule, items[i].Request = w.args.policy, w.args.request(w.cmd.op)
		}
	}
	enforce.DecideAll(background, items)
	for i := range batch {
		c.out = s.conclude(c.out, &batch[i].args, &items[i].Outcome, items[i].Err)
	}
	clear(batch)
	if c.batch = batch[:0]; cap(batch) > keptBatch {
		c.batch = nil
	}
}
