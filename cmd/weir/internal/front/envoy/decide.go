package envoy

import (
	"context"
	"slices"

	"github.com/weirlimit/weir"
)

// decideCall decides a resolved call and charges the hits that it grants.
func (s *Service) decideCall(ctx context.Context, c *call) error {
	if err := s.refundItems(ctx, c); err != nil {
		return err
	}
	gs, err := s.group(c)
	if err != nil {
		return err
	}
	granted, err := s.grant(ctx, c, gs)
	if err == nil {
		// A shadowed item is charged as if it were enforced: together with a granted
		// request, if it fits. It denies nothing.
		op := weir.OpPeek
		if granted {
			op = weir.OpAttempt
		}
		err = queryAll(ctx, c, gs.shadowed, op)
	}
	if err != nil {
		s.rollBack(ctx, c.groups) // a request without an answer charges nothing
	}
	return err
}

// grant charges the hard and soft groups if the request is granted, and reports whether
// it is: all hard groups fit and, if there are soft groups, at least one of these. Every
// item gets its result.
func (s *Service) grant(ctx context.Context, c *call, gs groups) (bool, error) {
	anySoft := c.quotaSpared() || len(gs.soft) == 0
	if len(gs.hard) == 0 {
		err := queryAll(ctx, c, gs.soft, weir.OpAttempt)
		return anySoft || anyAllowed(gs.soft), err
	}
	if err := queryAll(ctx, c, gs.soft, weir.OpPeek); err != nil {
		return false, err
	}
	if !anySoft && !anyAllowed(gs.soft) {
		return false, queryAll(ctx, c, gs.hard, weir.OpPeek)
	}
	granted, err := s.grantHard(ctx, c, gs.hard)
	if err != nil || !granted {
		return false, err
	}
	for i := range gs.soft {
		if g := &gs.soft[i]; g.d.Allowed {
			if err := g.query(ctx, c, weir.OpAttempt); err != nil {
				return false, err
			}
		}
	}
	if anySoft || anyAllowed(gs.soft) {
		return true, nil
	}
	// A concurrent request took the last of every quota after the peek.
	s.rollBack(ctx, gs.hard)
	return false, queryAll(ctx, c, gs.hard, weir.OpPeek)
}

// quotaSpared reports whether some item with quota is never over: one that gives hits
// back, or a shadowed one.
func (c *call) quotaSpared() bool {
	return slices.ContainsFunc(c.items, func(it item) bool {
		return it.quota && (it.kind == refunded || it.kind == shadowed)
	})
}

// grantHard charges all groups or none, and reports whether it did.
func (s *Service) grantHard(ctx context.Context, c *call, groups []group) (bool, error) {
	if len(groups) == 1 {
		err := groups[0].query(ctx, c, weir.OpAttempt)
		return groups[0].d.Allowed, err
	}
	last := onlyCharge(groups) // the peeks come first: a single charge needs no peek of its own
	fits := true
	for i := range groups {
		if g := &groups[i]; g != last {
			if err := g.query(ctx, c, weir.OpPeek); err != nil {
				return false, err
			}
			fits = fits && g.d.Allowed
		}
	}
	if !fits {
		return false, countDenials(ctx, c, groups, last)
	}
	for i := range groups {
		g := &groups[i]
		if g.n == 0 {
			continue // it was a peek already
		}
		if err := g.query(ctx, c, weir.OpAttempt); err != nil {
			return false, err
		}
		if !g.d.Allowed {
			s.rollBack(ctx, groups[:i])
			return false, queryAll(ctx, c, groups[:i], weir.OpPeek)
		}
	}
	return true, nil
}

// onlyCharge returns the group that charges anything, or nil if there are several.
func onlyCharge(groups []group) (only *group) {
	for i := range groups {
		if groups[i].n > 0 {
			if only != nil {
				return nil
			}
			only = &groups[i]
		}
	}
	return only
}

// countDenials completes a denial that only peeks have found: policies that count
// denials count this one, and policies with blocks begin one. last, if not nil, has not
// been queried yet.
func countDenials(ctx context.Context, c *call, groups []group, last *group) error {
	if last != nil {
		if err := last.query(ctx, c, weir.OpPeek); err != nil {
			return err
		}
	}
	for i := range groups {
		g := &groups[i]
		if g.d.Allowed {
			continue
		}
		var err error
		if g.compiled.Mode == weir.CountDenied {
			err = g.query(ctx, c, weir.OpAttempt)
		} else if g.policy != nil && g.policy.Blocks != nil {
			err = g.beginBlock(ctx, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
