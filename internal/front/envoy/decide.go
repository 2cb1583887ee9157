package envoy

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// undoTime bounds how long is tried to take back what a request was granted.
const undoTime = time.Second

// decide decides a request whose items are resolved, and charges what it grants.
func (s *Service) decide(ctx context.Context, w *work) error {
	if len(w.items) == 1 && w.items[0].kind == enforced {
		return s.decideOne(ctx, w)
	}
	for i := range w.items {
		if it := &w.items[i]; it.kind == refunded {
			if err := s.takeBack(ctx, w, it); err != nil {
				return err
			}
		}
	}
	w.groups = slices.Grow(w.groups, len(w.items)) // or a slice of them would be left behind
	hard := s.gather(w, enforced)
	soft := s.gather(w, quota)
	watched := s.gather(w, shadowed)
	for i := range w.groups {
		if err := s.prepare(w, &w.groups[i]); err != nil {
			return err
		}
	}
	granted, err := s.grant(ctx, w, hard, soft)
	if err == nil {
		// What is only watched is charged as if it were enforced: with what is
		// granted, as long as it fits. It refuses nothing.
		op := weir.OpPeek
		if granted {
			op = weir.OpAttempt
		}
		err = askAll(ctx, w, watched, op)
	}
	if err != nil {
		s.undo(ctx, w.groups) // a request without an answer charges nothing
	}
	return err
}

// decideOne is decide for one descriptor under one limit: by far the commonest.
func (s *Service) decideOne(ctx context.Context, w *work) error {
	w.groups = append(w.groups, group{engine: s.engine, n: w.items[0].n, items: w.one[:]})
	w.one[0] = &w.items[0]
	g := &w.groups[0]
	if err := s.prepare(w, g); err != nil {
		return err
	}
	return g.ask(ctx, w, weir.OpAttempt)
}

// grant decides what can refuse the request, and reports whether it is granted:
// all hard groups are, and of the soft ones, if there are any, one at least.
// Whatever the answer, all items are told.
func (s *Service) grant(ctx context.Context, w *work, hard, soft []group) (bool, error) {
	spared := w.spared(s.options.Quota) || len(soft) == 0
	if len(hard) == 0 {
		err := askAll(ctx, w, soft, weir.OpAttempt)
		return spared || anyAllowed(soft), err
	}
	if err := askAll(ctx, w, soft, weir.OpPeek); err != nil {
		return false, err
	}
	if !spared && !anyAllowed(soft) {
		return false, askAll(ctx, w, hard, weir.OpPeek)
	}
	granted, err := s.grantHard(ctx, w, hard)
	if err != nil || !granted {
		return false, err
	}
	for i := range soft {
		if g := &soft[i]; g.d.Allowed {
			if err := g.ask(ctx, w, weir.OpAttempt); err != nil {
				return false, err
			}
		}
	}
	if spared || anyAllowed(soft) {
		return true, nil
	}
	// Somebody else took the last of every quota since they were looked at.
	s.undo(ctx, hard)
	return false, askAll(ctx, w, hard, weir.OpPeek)
}

// spared reports whether an item with quota is not over whatever is decided: those
// that give hits back, those that are only watched and, where every rule is one with
// quota, those without a rule.
func (w *work) spared(all bool) bool {
	for i := range w.items {
		switch it := &w.items[i]; it.kind {
		case refunded, shadowed:
			if it.quota {
				return true
			}
		case free:
			if all {
				return true
			}
		}
	}
	return false
}

// grantHard charges all groups or none, and reports whether it did.
func (s *Service) grantHard(ctx context.Context, w *work, groups []group) (bool, error) {
	if len(groups) == 1 {
		err := groups[0].ask(ctx, w, weir.OpAttempt)
		return groups[0].d.Allowed, err
	}
	last := charging(groups) // what only looks is asked first: then one charge is one step
	fits := true
	for i := range groups {
		if g := &groups[i]; g != last {
			if err := g.ask(ctx, w, weir.OpPeek); err != nil {
				return false, err
			}
			fits = fits && g.d.Allowed
		}
	}
	if !fits {
		return false, countRefusals(ctx, w, groups, last)
	}
	for i := range groups {
		g := &groups[i]
		if g.n == 0 {
			continue // it was a peek already
		}
		if err := g.ask(ctx, w, weir.OpAttempt); err != nil {
			return false, err
		}
		if !g.d.Allowed {
			s.undo(ctx, groups[:i])
			return false, askAll(ctx, w, groups[:i], weir.OpPeek)
		}
	}
	return true, nil
}

// charging returns the only group that charges anything, or nil if there are more.
func charging(groups []group) (only *group) {
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

// countRefusals completes what is known of a request that is refused: policies that
// count refusals count theirs, and those that block begin a block, since they have
// only been looked at, and last, if it is not nil, has not been asked at all.
func countRefusals(ctx context.Context, w *work, groups []group, last *group) error {
	if last != nil {
		if err := last.ask(ctx, w, weir.OpPeek); err != nil {
			return err
		}
	}
	for i := range groups {
		g := &groups[i]
		if g.d.Allowed {
			continue
		}
		var err error
		if g.plan.Mode() == weir.CountDenied {
			err = g.ask(ctx, w, weir.OpAttempt)
		} else if g.blocks() {
			err = g.beginBlock(ctx, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// undo takes back what was granted, also for a proxy that has left. What cannot be
// taken back stays charged: that refuses too much, never too little, and is counted.
func (s *Service) undo(ctx context.Context, groups []group) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	for i := range groups {
		if kept, err := groups[i].giveBack(ctx); err != nil {
			s.counts.kept.Add(kept)
			s.complain(err)
		}
	}
}

func askAll(ctx context.Context, w *work, groups []group, op weir.Op) error {
	for i := range groups {
		if err := groups[i].ask(ctx, w, op); err != nil {
			return err
		}
	}
	return nil
}

func anyAllowed(groups []group) bool {
	for i := range groups {
		if groups[i].d.Allowed {
			return true
		}
	}
	return false
}
