package memory

import (
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// A block (R20) is a slot of its own beside the history of its limit. So a key without a history
// can have one, and histories without blocks take no room for them. It is read and written under
// the lock of its shard alone. The slot of the history has a flag, Blocked, while there may be a
// block or appointments. A flagged slot is found only by a caller with the lock of the shard. So
// callers of other keys never look for blocks.

// feels reports whether a block of the limit denies the call, or moves its instant (R2).
func (req *request) feels(l *limitRules) bool {
	switch {
	case req == nil || req.Op == engine.Settle:
		return false
	case req.Op == engine.Extend:
		return req.N > 0 && l.takesFurther()
	}
	return true
}

// mayBlock reports whether the request may begin a block of the limit.
func (req *request) mayBlock(l *limitRules) bool {
	switch {
	case req == nil:
		return false
	case req.Op == engine.Block:
		return req.From > 0
	case req.Op == engine.Attempt || req.Op == engine.Probe:
		return req.N > 0 && l.block > 0
	}
	return false
}

// mayBegin reports whether the denial of the request may begin a block.
func (c *claim) mayBegin() bool {
	isAttempt := c.req.Op == engine.Attempt || c.req.Op == engine.Probe
	return !c.blocked && isAttempt && c.req.N > 0
}

// mayHaveBlock reports whether the record may have a block in its locked shard.
func (r *record) mayHaveBlock() bool {
	if r.slot == nil {
		return r.shard.HasBlocks()
	}
	return r.slot.Blocked()
}

// forgetBlock clears the block of a record, as an earlier try has left it.
func (r *record) forgetBlock() {
	r.block, r.blocked = nil, 0
	r.isNewBlock, r.begins = false, false
	r.redated = false
}

// lookAtBlock reads the block at the instant of a decision. A beginning that is ahead of the
// clock by a second or more is from before a correction of the clock: it moves to now (R2).
func (r *record) lookAtBlock(raw, now int64) {
	begin, end := r.block.Block()
	if begin-raw >= window.Step {
		end, r.redated = now+end-begin, true
	}
	r.blocked = max(end-now, 0)
}

// insertBlocks inserts the slots of the blocks that the denial of the request may begin. Without
// room it changes nothing. done is false if the locks of the shards are needed and not held.
func (m *Memory) insertBlocks(c *claim) (done bool, err error) {
	if c.begins = c.mayBegin(); !c.begins {
		return true, nil
	}
	for i := range c.records {
		r := &c.records[i]
		if r.limit.block == 0 || !c.denied(r) {
			continue
		}
		if c.locks == 0 {
			return false, nil
		}
		if err = m.insertBlock(c, r); err != nil {
			return true, err
		}
	}
	return true, nil
}

// insertBlock inserts the slot of the record's block, if there is none.
func (m *Memory) insertBlock(c *claim, r *record) error {
	switch {
	case r.block != nil:
		return nil
	case !m.table.TakeKeys(1):
		return m.fullOfKeys
	case !r.full:
		r.block = r.shard.Insert(r.key.OfBlock(), r.text)
	}
	if r.block == nil {
		m.table.GiveKeys(1)
		return m.fullOfBytes
	}
	r.block.Unlock()
	r.isNewBlock = true
	return nil
}

// removeNewBlocks removes the slots that insertBlock has inserted.
func (m *Memory) removeNewBlocks(c *claim) {
	for i := range c.records {
		if r := &c.records[i]; r.isNewBlock {
			m.removeBlock(r)
		}
	}
}

func (m *Memory) removeBlock(r *record) {
	r.shard.Remove(&m.table, r.key, r.block)
	r.block, r.isNewBlock = nil, false
}

// beginBlocks begins the block of the limit that denied the attempt, if it has one. Of several
// calls decided together (Rules.calls), each has a limit of its own that denied it. That is the one
// with the longest wait before any of these blocks.
func (c *claim) beginBlocks() {
	if c.rules.calls == nil {
		c.denier().markBlock()
	}
	for _, among := range c.rules.calls {
		c.denierAmong(among).markBlock()
	}
	for i := range c.records {
		if r := &c.records[i]; r.begins {
			r.blocked, c.blocked = r.limit.block, true
			r.wait = max(r.wait, r.blocked)
		}
	}
}

// closeBlocked closes the limits with a running block.
func (c *claim) closeBlocked() {
	for i := range c.records {
		r := &c.records[i]
		r.closed = r.closed || r.blocked > 0
	}
}

// waitForBlocks makes the waits of the limits as long as their running blocks.
func (c *claim) waitForBlocks() {
	for i := range c.records {
		r := &c.records[i]
		r.wait = max(r.wait, r.blocked)
	}
}

// longestBlock returns the rest of the longest block that runs, in microseconds.
func (c *claim) longestBlock() (longest int64) {
	for i := range c.records {
		longest = max(longest, c.records[i].blocked)
	}
	return longest
}

// markBlock marks the block of a limit, if it has one, as one that begins. r may be nil.
func (r *record) markBlock() {
	if r != nil && r.limit.block > 0 {
		r.begins = true
	}
}

// storeBlocks writes the blocks that begin, and the corrections of others that an attempt or a
// record stores (R2). A recording drops a block that is over, as it drops entries. Its instant
// becomes that of the newest attempt, so no later decision is within the block.
func (m *Memory) storeBlocks(c *claim) {
	virtual := c.at.virtual()
	for i := range c.records {
		r := &c.records[i]
		r.redated = r.redated && c.req.storesCorrections()
		switch {
		case r.begins || r.redated:
			r.block.SetBlock(c.now, c.now+r.blocked)
			r.block.SetVirtual(virtual)
		case r.isNewBlock, r.entry.Units > 0 && r.isBlockOver(c.raw, virtual):
			m.removeBlock(r)
		}
		if r.slot != nil && (r.entry.Units > 0 || r.begins) {
			r.markBeside()
		}
	}
}

// storesCorrections reports whether the request stores corrections of the clock: peeks and the
// changes of reservations do not.
func (req *request) storesCorrections() bool {
	return req.N > 0 && (req.Op == engine.Attempt || req.Op == engine.Record)
}

// isBlockOver reports whether the block is over at a reading of the engine's clock. Blocks at
// instants of callers are left to the sweep, because such instants may run back (R13).
func (r *record) isBlockOver(raw int64, virtual bool) bool {
	if r.block == nil || virtual || r.block.Virtual() {
		return false
	}
	_, end := r.block.Block()
	return end <= raw
}

// blockHeld begins or ends the blocks of a Block on records that are held, and releases them.
func (m *Memory) blockHeld(c *claim, d *engine.Result) error {
	defer m.release(c)
	for i := range c.records {
		r := &c.records[i]
		r.entry.Units = 0
		if c.req.From == 0 {
			continue
		}
		if err := m.insertBlock(c, r); err != nil {
			m.removeNewBlocks(c)
			return err
		}
		r.begins, r.blocked = true, max(c.req.From, r.blocked)
	}
	m.storeBlocks(c)
	for i := range c.records {
		if r := &c.records[i]; c.req.From == 0 && r.block != nil {
			m.endBlock(r)
		}
	}
	d.At, d.Blocked = time.UnixMicro(c.now), span(c.longestBlock())
	if m.journal != nil {
		report := m.newReport(c.now, c.at.virtual())
		report.blocks(c.records)
		report.send()
	}
	return nil
}

// endBlock ends the block of the record.
func (m *Memory) endBlock(r *record) {
	m.removeBlock(r)
	r.begins, r.blocked = true, 0 // for the journal: a block without a length
	if r.slot != nil {
		r.markBeside()
	}
}
