package envoy

import (
	"cmp"
	"errors"
	"slices"

	"github.com/weirlimit/weir"
)

// decideCall decides a resolved call and charges the hits that it grants. After an error of an
// item, c.err, no further one is decided.
func (s *Service) decideCall(c *call) {
	s.refundItems(c)
	c.over = !s.grant(c)
	// A shadowed item is charged as if it were enforced: together with a granted
	// request, if it fits. It denies nothing.
	op := weir.OpAttempt
	if c.over {
		op = weir.OpPeek
	}
	c.decideEach(c.itemsOf(shadowed), op)
	if c.err != nil {
		s.rollBack(c) // a request without an answer charges nothing
	}
}

// grant charges the enforced items and those with quota if the request is granted, and
// reports whether it is: all enforced items fit and, if there are items with quota, at
// least one of these. Every item gets its result.
func (s *Service) grant(c *call) bool {
	hard, soft := c.itemsOf(enforced), c.itemsOf(quota)
	spared := len(soft) == 0 || c.quotaSpared()
	if len(hard) == 0 {
		c.decideEach(soft, weir.OpAttempt)
		return spared || len(fitting(soft)) > 0
	}
	c.decideEach(soft, weir.OpPeek)
	soft = fitting(soft)
	if !spared && len(soft) == 0 {
		c.decideEach(hard, weir.OpPeek)
		return false
	}
	if !s.grantAll(c, hard) {
		return false
	}
	c.decideEach(soft, weir.OpAttempt)
	if spared || len(fitting(soft)) > 0 {
		return true
	}
	// A concurrent request took the last of every quota after the peek.
	s.rollBack(c)
	c.decideEach(hard, weir.OpPeek)
	return false
}

// itemsOf returns the items of a kind.
func (c *call) itemsOf(k kind) (items []*item) {
	for i := range c.items {
		if it := &c.items[i]; it.kind == k {
			items = append(items, it)
		}
	}
	return items
}

// fitting returns the items that are not over their limits.
func fitting(items []*item) []*item {
	return slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it.over })
}

// quotaSpared reports whether some item with quota is never over: one that gives hits
// back, or a shadowed one.
func (c *call) quotaSpared() bool {
	return slices.ContainsFunc(c.items, func(it item) bool {
		return (it.kind == refunded || it.kind == shadowed) && it.limit != nil && it.limit.rule.Quota
	})
}

// grantAll charges all items or none, and reports whether it did.
func (s *Service) grantAll(c *call, items []*item) bool {
	if len(items) == 1 {
		c.decideEach(items, weir.OpAttempt)
		return !items[0].over
	}
	granted, err := c.decideTogether(items)
	if _, apart := errors.AsType[*weir.CallError](err); apart { // nothing has changed
		return s.grantInSteps(c, items)
	}
	c.err = cmp.Or(c.err, err)
	return granted
}

// grantInSteps is grantAll for items that cannot be decided together. It peeks at all of
// them, and charges them if all fit.
func (s *Service) grantInSteps(c *call, items []*item) bool {
	c.decideEach(items, weir.OpPeek)
	if len(fitting(items)) < len(items) {
		s.countDenials(c, items)
		return false
	}
	c.decideEach(items, weir.OpAttempt)
	fit := fitting(items)
	if len(fit) < len(items) {
		s.rollBack(c) // a concurrent request took the room after the peek
		c.decideEach(fit, weir.OpPeek)
	}
	return len(fit) == len(items)
}

// countDenials repeats as attempts the peeks that were denied, where a denial changes
// something: policies that count denials count this one, and policies with blocks begin
// one. If an attempt finds room by now, the request is denied all the same: a block does not
// begin, and its hits are given back, while those of a counted denial stay.
func (s *Service) countDenials(c *call, items []*item) {
	for _, it := range items {
		counts := it.rule.Mode == weir.CountDenied
		if !it.over || !counts && it.rule.Blocks == nil {
			continue
		}
		peeked := it.result
		c.decideEach([]*item{it}, weir.OpAttempt)
		if !it.over {
			it.result = peeked
			if counts {
				it.charged = 0
			}
			s.rollBack(c)
		}
	}
}
