package spec

import (
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
)

// block is a time for which a limit denies its key (R20). The zero block is none.
type block struct {
	begin  int64 // instant in microseconds
	length int64 // microseconds
}

// end is the first instant after the block.
func (b block) end() int64 { return b.begin + b.length }

// rest is the number of microseconds from now to the end of the block, 0 after it.
func (b block) rest(now int64) int64 { return max(0, b.end()-now) }

// block is v after a denial of the call: the limit that denied it begins its block, if it has
// one. Of calls together, each has such a limit among its own. before is the state before the
// denial.
func (v view) block(before view, c *engine.Call) view {
	parts := c.Rules.Calls
	if !c.Rules.Joined {
		parts = [][]int{v.all()}
	}
	blocks := slices.Clone(v.blocks)
	for _, part := range parts {
		if i := before.denier(v, modeOf(c), c.N, part); i >= 0 && v.limits[i].Block > 0 {
			blocks[i] = block{v.now, v.limits[i].Block}
		}
	}
	v.blocks = blocks
	return v
}

// keepBlocks stores the blocks of v under the names of their histories.
func (e *Engine) keepBlocks(names []string, v view) {
	for i, name := range names {
		if v.blocks[i].length > 0 {
			e.blocks[name] = v.blocks[i]
		}
	}
}

// block blocks the key for From microseconds in every limit of the rules, or ends its blocks
// (R20).
func (e *Engine) block(c *engine.Call, at int64) {
	names := namesOf(c, c.Rules.Limits)
	v := e.look(c.Rules.Limits, names, at)
	for i, name := range names {
		if c.From == 0 {
			v.blocks[i] = block{}
			delete(e.blocks, name)
			continue
		}
		v.blocks[i] = block{v.now, max(c.From, v.blocks[i].rest(v.now))}
	}
	e.keepBlocks(names, v)
	c.Result.At, c.Result.Blocked = time.UnixMicro(v.now), v.blocked()
}
