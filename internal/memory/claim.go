package memory

import (
	"sync"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// claim is the histories of a call while it is decided. Memory.name sets their keys once. Then
// they are held and released, perhaps several times. tryHold takes their own locks alone, which is
// cheaper. hold takes those of their shards as well.
//
// The lock of a shard protects which keys it has. Only its holder inserts, moves and removes slots.
// The lock of a slot protects the history in it. A caller that holds a shard still locks the slots
// that it uses, because others may hold them without the shard.
type claim struct {
	rules   *Rules   // nil for a refund, a count and a reset
	req     *request // nil for these, too
	records []record
	at      moment

	raw, now int64  // the instant as read, and that of the decision, which R2 may have moved
	locks    uint64 // the set of shards that are locked, a bit each
	inserted bool   // a key was added
	near     bool   // there may be blocks in the shards, or the request may begin one (R20)
	blocked  bool   // a block runs that counts for the request; it needs the locks of shards
	begins   bool   // the request is denied and begins blocks

	ahead bool  // a history has appointments (R18); then the shards are locked
	start int64 // the instant of the appointment that the request books, or 0
}

// moment is the instant of a call in a Memory. The zero moment is now.
type moment struct {
	micros int64 // since 1970, unless it is fromClock
	from   source
}

// source is where the instant of a call comes from.
type source uint8

const (
	fromClock   source = iota // the engine's clock, which is not read yet
	fromReading               // an earlier reading of the engine's clock
	fromCaller
)

// momentOf returns the instant of a call: its own, or otherwise the given one.
func momentOf(c *engine.Call, otherwise moment) moment {
	if c.Given {
		return moment{c.At, fromCaller}
	}
	return otherwise
}

// virtual reports whether the caller gave the instant.
func (at moment) virtual() bool { return at.from == fromCaller }

// instant returns the instant of a call in microseconds since 1970.
func (m *Memory) instant(at moment) int64 {
	if at.from == fromClock {
		return m.now()
	}
	return at.micros
}

// now reads the engine's clock: microseconds since 1970 that never run back.
// time.Since reads only the monotonic clock, at half the cost of time.Now.
func (m *Memory) now() int64 {
	return m.base + int64(time.Since(m.start)/time.Microsecond)
}

// record is one limit of a call: the place of its history, and the state found there.
type record struct {
	limit *limitRules
	rule  *window.Rule // the limit's numbers at the instant of the decision
	key   keytable.Key
	text  string // the key's bytes
	shard *keytable.Shard
	slot  *keytable.Slot  // locked while the claim is held, nil if the key has no history
	h     *window.History // the history decided on
	arena *window.Arena   // with its entries
	state window.State
	entry window.Add // to be recorded; 0 units = the history is only read, or gives units back
	room  int64      // units that fitted before the attempt
	wait  int64      // this limit's own wait after the decision

	// For a refund: the units that it took, the end of their entry, and the cutoff.
	took, refunded, cutoff int64

	// The limit's block (block.go). Its slot is nil if there is none. It belongs to the claim
	// while the shard is locked.
	block   *keytable.Slot
	blocked int64 // microseconds for which it still denies

	appointments *appointments // of the history (appointment.go), or nil

	// The flags share one word: each decision clears its records.
	closed     bool // before the attempt the minimum interval had not passed, or a block ran
	full       bool // the shard has no room for the key or its block
	isNew      bool // the key was inserted
	isNewBlock bool // the block's slot was inserted and has no block yet
	begins     bool // this decision begins the block, or gives it another end
	redated    bool // a corrected clock has moved the block's beginning to now (R2)

	// corrected reports that h is a copy, which storeCopies can store. It has a correction of the
	// clock (R2) or another rate of a bucket (R12), or a refund takes units of all histories or
	// none.
	corrected bool
}

// noHistory is the history of a key without a slot. It is never written: recording begins
// with a slot. A copy in the record instead would make each decision allocate its records,
// since they would point into themselves.
var noHistory = window.Empty

// name sets the keys of the records. Keys of several values stand in the buffer that it
// returns, which is nil without such keys. Put it back with putBuffer.
func (m *Memory) name(c *claim, limits []limitRules, k *engine.Key) (buffer *[]byte) {
	// Limits of a policy often count by the same value, so the last one is kept.
	value := -1 // its index in the key; -1 = none
	text := ""
	hashed := keytable.Text{}
	for i := range c.records {
		r := &c.records[i]
		l := &limits[i]
		switch {
		case l.sole < 0:
			if buffer == nil {
				buffer = buffers.Get().(*[]byte)
			}
			from := len(*buffer)
			for _, dim := range l.by { // each value behind its length
				*buffer = keyenc.Append(*buffer, k.Value(dim))
			}
			value, text = -1, textOf((*buffer)[from:])
			hashed = m.table.Text(text)
		case l.sole != value:
			value, text = l.sole, k.Value(l.sole)
			hashed = m.table.Text(text)
		}
		r.key = hashed.In(&m.table, l.group, c.at.virtual())
		r.limit = l
		r.text = text
		r.shard = m.table.Shard(&r.key)
	}
	return buffer
}

// buffers are reusable buffers for encoded keys.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 256); return &b }}

func putBuffer(b *[]byte) {
	if b != nil {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// textOf returns bytes, which must not change while the text is in use, as a string.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// shards is the set of the records' shards.
func (c *claim) shards() (set uint64) {
	for i := range c.records {
		set |= c.records[i].key.Bit()
	}
	return set
}

// tryHold holds the histories without their shards. It reports false, and holds nothing, if
// one is missing, on the other clock, or needs a correction.
//
// The clock is read before the histories are locked, which saves a tenth of a decision on
// many keys. A call that locks one of them meanwhile moves Last if it drops entries, and R2
// moves this decision to that instant. A history that a sweep has removed is not found.
func (m *Memory) tryHold(c *claim) bool {
	records := c.records
	for i := range records {
		r := &records[i]
		if r.slot = r.shard.Find(&r.key); r.slot == nil {
			return false
		}
	}
	c.raw = m.instant(c.at)
	c.now, c.locks = c.raw, 0
	fits := true
	var places [engine.MaxLimits]uint8
	order := c.order(&places)
	for n, i := range order {
		r := &records[i]
		slot := r.shard.Acquire(r.slot, &r.key, r.text)
		if slot == nil {
			for _, locked := range order[:n] {
				records[locked].slot.Unlock()
			}
			return false
		}
		r.slot = slot
		r.h = &slot.History
		r.arena = &r.shard.Arena
		r.corrected = false
		r.entry.Units = 0
		last := slot.Last
		fits = fits && last-c.raw < window.Step && slot.Rate() == r.limit.Rate
		c.now = max(c.now, last)
	}
	if !fits {
		m.release(c)
		return false
	}
	for i := range records {
		r := &records[i]
		r.rule = r.limit.at(c.now)
	}
	return true
}

// order returns the places of the records in the order in which they are locked.
func (c *claim) order(places *[engine.MaxLimits]uint8) []uint8 {
	records := c.records
	order := places[:len(records)]
	for i := range order {
		key, j := &records[i].key, i
		for ; j > 0 && key.Before(&records[order[j-1]].key); j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
	return order
}

// hold holds the histories, their blocks and their shards. It makes room for those that are
// missing and that the request may need, where there is any.
//
// The clock is read under the locks, unless the caller gave the instant or a batch has read it. For
// a batch it is read again in two cases. A history or the block of a key is missing: it may have
// counted at the reading of the batch, and a sweep may have removed it since (R1, R3). Or one is a
// second ahead: then the reading may just be old, which is no corrected clock (R2).
func (m *Memory) hold(c *claim) {
	missing := m.lockShards(c)
	if missing > 0 {
		m.reserve(c, missing)
	}
	c.raw = c.at.micros
	isStale := c.lockHistories(missing > 0) || c.at.from == fromClock
	if isStale && !c.at.virtual() {
		c.raw = m.now()
	}
	c.now = c.decidedAt()
	for i := range c.records {
		m.readRecord(c, &c.records[i])
	}
}

// lockShards locks the shards of the histories, and clears what an earlier try has left in the
// claim. It returns the number of keys and blocks that may have to be inserted.
func (m *Memory) lockShards(c *claim) (missing int) {
	c.locks = c.shards()
	m.table.Lock(c.locks)
	c.blocked, c.begins = false, false
	c.ahead, c.start = false, 0
	c.near = c.req != nil && (c.rules.blocks || c.req.Op == engine.Block)
	if c.req.mayExceed() {
		c.setSpare(m.spareBytes())
	}
	for i := range c.records {
		r := &c.records[i]
		r.h, r.arena = &noHistory, &r.shard.Arena
		r.entry.Units, r.corrected = 0, false
		r.full, r.isNew = false, false
		r.appointments = nil
		r.forgetBlock()
		if r.slot = r.shard.Lookup(r.key, r.text); r.slot == nil && c.req.inserts(r.limit) {
			missing++
		}
		if c.near && c.req.mayBlock(r.limit) {
			missing++
		}
	}
	return missing
}

// lockHistories locks the histories in their order, and finds their blocks and appointments. Slots
// may have moved since the shards were locked, if room was made (moved). isStale reports that c.raw
// may be too old for the decision: a history is missing, or ahead of it by a second or more.
func (c *claim) lockHistories(moved bool) (isStale bool) {
	var order [engine.MaxLimits]uint8
	for _, i := range c.order(&order) {
		r := &c.records[i]
		if r.slot == nil {
			isStale = true
		} else {
			if moved {
				r.slot = r.shard.Lookup(r.key, r.text)
			}
			r.slot.Lock()
			r.h = &r.slot.History
			if list := r.shard.Ahead(r.slot); list != nil {
				r.appointments, c.ahead = &appointments{list: list}, true
			}
			isStale = isStale || r.h.Behind(c.raw)
		}
		if r.mayHaveBlock() {
			r.block, c.near = r.shard.BlockOf(r.key, r.text), true
			isStale = isStale || r.block == nil || r.block.Behind(c.raw)
		}
	}
	return isStale
}

// decidedAt returns the instant of the decision: that of the newest attempt of a history or a
// block, if it is ahead of the reading by less than a second (R2). One that is farther ahead is
// from before a correction of the clock.
func (c *claim) decidedAt() int64 {
	now := c.raw
	for i := range c.records {
		r := &c.records[i]
		if last := r.h.Last; last-c.raw < window.Step {
			now = max(now, last)
		}
		if r.block != nil && c.req.feels(r.limit) && r.block.Last-c.raw < window.Step {
			now = max(now, r.block.Last)
		}
	}
	return now
}

// readRecord finds what the history of a record is at the instant of the decision: a corrected
// copy, its appointments, and its block.
func (m *Memory) readRecord(c *claim, r *record) {
	r.rule = r.limit.at(c.now)
	if r.h.Last > c.now || r.slot != nil && r.h.Rate() != r.rule.Rate {
		r.h, r.arena = r.h.Clone(r.arena)
		r.corrected = true
		m.adjust(r, c.now)
	} else if r.appointments != nil {
		r.lookAhead(c.now, 0)
		if r.rule.Rate != 0 {
			r.beginBucket(r.rule.Refill)
		}
	}
	if r.appointments != nil {
		r.appointments.wasCopied = r.corrected
		r.measureAhead(c.now)
	}
	if r.block != nil && c.req.feels(r.limit) {
		r.lookAtBlock(c.raw, c.now)
		c.blocked = c.blocked || r.blocked > 0
	}
}

// setSpare lets the shards exceed a cap on bytes by so many. They are locked.
func (c *claim) setSpare(bytes int64) {
	for i := range c.records {
		c.records[i].shard.Arena.Spare = bytes
	}
}

// reserve makes room in the shards for n keys and blocks that may be inserted.
func (m *Memory) reserve(c *claim, n int) {
	for i := range c.records {
		r := &c.records[i]
		if r.slot == nil && c.req.inserts(r.limit) || c.req.mayBlock(r.limit) {
			r.full = !r.shard.Reserve(&m.table, r.key, n)
		}
	}
}

// adjust corrects the record's history. Entries of the future count as entries of now (R2). A
// bucket gets the limit's rate (R12). Appointments that have begun before count at the rate of
// before.
func (m *Memory) adjust(r *record, now int64) {
	before := r.h.Last
	if r.h.Last > now {
		r.h.Redate(r.arena, r.rule.End(now), now)
	}
	if r.appointments != nil {
		r.lookAhead(now, r.h.Last-before)
		if rate := r.h.Rate(); rate != 0 {
			r.beginBucket(m.rates.numbered(rate))
		}
	}
	if r.h.Rate() != r.rule.Rate {
		r.h.Pace(r.rule, m.rates.numbered(r.h.Rate()), now)
	}
}

// release unlocks the histories and their shards.
func (m *Memory) release(c *claim) {
	c.unlockHistories()
	m.unlockShards(c)
}

func (c *claim) unlockHistories() {
	records := c.records
	for i := range records {
		if r := &records[i]; r.slot != nil {
			r.slot.Unlock()
			r.slot = nil
		}
	}
}

// unlockShards unlocks the shards, if they are locked. It is inlined.
func (m *Memory) unlockShards(c *claim) {
	if c.locks != 0 {
		m.unlockLocked(c)
	}
}

func (m *Memory) unlockLocked(c *claim) {
	if c.req.mayExceed() {
		c.setSpare(0)
	}
	m.table.Unlock(c.locks)
	c.locks = 0
}

// sweepEvery: one in so many recordings, and every fourth new key, sweeps one group of slots. So
// memory follows the histories that count (R13).
const sweepEvery = 32

// sweepDue reports whether a recording at now sweeps: one instant in sweepEvery. A counter would
// be one more cache line that all callers change.
func sweepDue(now int64) bool {
	const odd = 0x9e3779b97f4a7c15 // so that instants at equal distances are spread
	return uint64(now)*odd>>32%sweepEvery == 0
}

// sweep sweeps a few slots of each shard of the call. A call that has inserted a key sweeps a shard
// when its length is a multiple of four. A shard that is not locked is swept if it is free. The
// histories are unlocked.
func (m *Memory) sweep(c *claim) {
	for i := range c.records {
		s := c.records[i].shard
		switch {
		case c.locks != 0:
			if !c.inserted || s.Len()%4 == 0 {
				s.SweepStep(&m.table, c.raw, c.at.virtual())
			}
		case s.TryLock():
			s.SweepStep(&m.table, c.raw, c.at.virtual())
			s.Unlock()
		}
	}
}
