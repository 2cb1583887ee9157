package resp

import (
	"hash/maphash"
	"slices"
	"sync"
)

// Bounds of what one connection asks of a store at the same time.
const (
	maxBatch = 256 // commands put off
	maxLines = 64  // of them under way
)

// batch are decisions of one pipeline that were put off, so that they can be asked
// for at the same time.
type batch struct {
	waiting []waiting
}

// waiting is one of them, and its answer.
type waiting struct {
	cmd  *command
	args []string
	out  []byte
}

// putOff keeps a decision until settle.
func (c *session) putOff(cmd *command, args []string) {
	c.batch.waiting = append(c.batch.waiting, waiting{cmd: cmd, args: slices.Clone(args)})
	if len(c.batch.waiting) == maxBatch {
		c.settle()
	}
}

// settle makes the decisions that were put off, and answers them in their order.
func (c *session) settle() {
	w := c.batch.waiting
	switch len(w) {
	case 0:
		return
	case 1:
		c.out = w[0].cmd.decide(c.server, c.out, w[0].args)
	default:
		c.server.decideTogether(w)
		for i := range w {
			c.out = append(c.out, w[i].out...)
		}
	}
	clear(w)
	c.batch.waiting = w[:0]
}

// lineSeed makes the lines of a process its own.
var lineSeed = maphash.MakeSeed()

// decideTogether makes decisions at the same time, but those about one key one
// after the other: a client that records and then checks wants the check to see it.
func (s *Server) decideTogether(w []waiting) {
	var lines [maxLines][]*waiting
	for i := range w {
		line := w[i].line() % maxLines
		lines[line] = append(lines[line], &w[i])
	}
	var all sync.WaitGroup
	for _, line := range lines {
		if len(line) == 0 {
			continue
		}
		all.Go(func() {
			for _, each := range line {
				each.out = each.cmd.decide(s, nil, each.args)
			}
		})
	}
	all.Wait()
}

// line is a number that all commands about one key have in common, in whatever
// order they name its dimensions.
func (w *waiting) line() uint64 {
	h := maphash.String(lineSeed, w.args[0])
	if w.cmd.keyed {
		pairs, _ := cutNumbers(withoutOptions(w.args[1:], takesID|takesTTL))
		for _, pair := range pairs {
			h += maphash.String(lineSeed, pair)
		}
	}
	return h
}
