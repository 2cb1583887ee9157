package conformance

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
)

// beginning is a denied call that began a block, by its answer. A denial at the instant of the
// beginning looks the same.
type beginning struct {
	call
	limit int   // index of the limit that denied it
	end   int64 // of its block, microseconds since 1970
}

// beginnings returns the denied calls that began a block: it has its whole length.
func (h *concurrentHistory) beginnings() (all []beginning) {
	for _, c := range h.calls {
		if i := h.beginsBlock(c); i >= 0 {
			all = append(all, beginning{c, i, endOfBlock(c)})
		}
	}
	return all
}

// beginsBlock returns the index of the limit whose block the call began, or -1.
func (h *concurrentHistory) beginsBlock(c call) int {
	i := slices.IndexFunc(h.policy.limits, func(l weir.Limit) bool { return l.Name == c.decision.Limit })
	if i < 0 || c.decision.Allowed || c.n == 0 {
		return -1
	}
	if block := h.policy.limits[i].Block; block == 0 || block != c.decision.Blocked {
		return -1
	}
	return i
}

// endOfBlock is the instant at which the blocks of a decision end, in microseconds since 1970.
func endOfBlock(c call) int64 { return c.decision.At.UnixMicro() + c.decision.Blocked.Microseconds() }

// isOf reports whether the call is for the history of the block.
func (h *concurrentHistory) isOf(b *beginning, c call) bool {
	return h.ids[b.limit][c.key] == h.ids[b.limit][b.key]
}

// auditBlocks checks that a denial by a limit with a block begins one, unless one runs, that each
// block ends where its beginning says, and that nothing is granted before its end (R20).
func (h *concurrentHistory) auditBlocks() string {
	begun := h.beginnings()
	for _, c := range h.calls {
		breach := ""
		if c.decision.Granted > 0 {
			breach = h.auditGrant(c, begun)
		} else {
			breach = h.auditDenial(c, begun)
		}
		if breach != "" {
			return fmt.Sprintf("%s\n  %s", breach, quoteRule(20))
		}
	}
	return ""
}

// auditGrant finds a block that ran when the call was granted.
func (h *concurrentHistory) auditGrant(c call, begun []beginning) string {
	at := c.decision.At.UnixMicro()
	for i := range begun {
		b := &begun[i]
		block := h.policy.limits[b.limit].Block
		surely := c.from > b.to && c.to < b.from+block-us // engines cut instants to microseconds
		byInstant := at > b.decision.At.UnixMicro() && at < b.end && !h.stalled()
		if (surely || byInstant) && h.isOf(b, c) {
			return fmt.Sprintf("%d units were granted between %v and %v, at %d, and a denial between %v and %v, at %d, began a block of %v",
				c.decision.Granted, c.from, c.to, at, b.from, b.to, b.decision.At.UnixMicro(), block)
		}
	}
	return ""
}

// auditDenial checks that the block of a denial has begun, and ends where its beginning says.
func (h *concurrentHistory) auditDenial(c call, begun []beginning) string {
	d := &c.decision
	if d.Blocked == 0 {
		i := slices.IndexFunc(h.policy.limits, func(l weir.Limit) bool { return l.Name == d.Limit })
		if i >= 0 && h.policy.limits[i].Block > 0 && c.n > 0 { // an attempt of 0 units begins none
			return fmt.Sprintf("an attempt of %d units was denied between %v and %v by limit %q, and began no block",
				c.n, c.from, c.to, d.Limit)
		}
		return ""
	}
	hasBegun := func(b beginning) bool { return b.end == endOfBlock(c) && h.isOf(&b, c) }
	if h.stalled() || slices.ContainsFunc(begun, hasBegun) {
		return ""
	}
	return fmt.Sprintf("an attempt of %d units was denied at %d by a block of %v more, which no denial began",
		c.n, d.At.UnixMicro(), d.Blocked)
}

// isBlocked reports whether a block may have denied the call: one that an earlier denial began,
// which a limit may have caused.
func (h *concurrentHistory) isBlocked(c call, begun []beginning) bool {
	for i := range begun {
		b := &begun[i]
		isRunning := b.from < c.to && c.from < b.to+h.policy.limits[b.limit].Block+us
		if isRunning && h.isOf(b, c) {
			return true
		}
	}
	return false
}
