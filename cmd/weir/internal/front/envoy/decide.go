package envoy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
)

// decideCall decides a resolved call and charges the hits that it grants. After an error of an
// item, c.err, it decides no further item.
func (s *Service) decideCall(c *call) {
	s.refundItems(c)
	c.over = !s.grant(c)
	// A shadowed item is charged as if it were enforced: if it fits and the request is granted.
	// It denies nothing.
	op := engine.Attempt
	if c.over {
		op = engine.Peek
	}
	c.decideEach(c.itemsOf(shadowed), op)
	if c.err != nil {
		s.rollBack(c)
	}
}

// grant reports whether the request is granted, and charges its enforced items and its items
// with quota. All enforced items must fit. If there are items with quota, at least one of them
// must fit. Every item gets its result.
func (s *Service) grant(c *call) bool {
	hard, soft := c.itemsOf(enforced), c.itemsOf(quota)
	spared := len(soft) == 0 || c.quotaSpared()
	if len(hard) == 0 {
		c.decideEach(soft, engine.Attempt)
		return spared || len(fitting(soft)) > 0
	}
	c.decideEach(soft, engine.Peek)
	soft = fitting(soft)
	if !spared && len(soft) == 0 {
		c.decideEach(hard, engine.Peek)
		return false
	}
	if !s.grantAll(c, hard) {
		return false
	}
	c.decideEach(soft, engine.Attempt)
	if spared || len(fitting(soft)) > 0 {
		return true
	}
	// After the peek, concurrent requests have used up every quota.
	s.rollBack(c)
	c.decideEach(hard, engine.Peek)
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

// fitting returns those items that are not over their limits.
func fitting(items []*item) []*item {
	return slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it.over })
}

// quotaSpared reports whether an item with quota cannot be over its limit, because it gives
// hits back or is shadowed.
func (c *call) quotaSpared() bool {
	return slices.ContainsFunc(c.items, func(it item) bool {
		neverOver := it.kind == refunded || it.kind == shadowed
		return neverOver && it.limit != nil && it.limit.rule.Quota
	})
}

// grantAll charges all items or none, and reports whether it did.
func (s *Service) grantAll(c *call, items []*item) bool {
	if len(items) == 1 {
		c.decideEach(items, engine.Attempt)
		return !items[0].over
	}
	granted, err := c.decideTogether(items)
	if _, apart := errors.AsType[*engine.CallError](err); apart { // rejected; nothing is charged
		return s.grantInSteps(c, items)
	}
	c.err = cmp.Or(c.err, err)
	return granted
}

// grantInSteps does the work of grantAll for items that cannot be decided together. It probes
// all items, and reserves them if all fit. A denied probe starts the block of its limit.
func (s *Service) grantInSteps(c *call, items []*item) bool {
	c.decideEach(items, engine.Probe)
	if len(fitting(items)) < len(items) {
		c.countDenials(items)
		return false
	}
	c.reserveEach(items)
	fit := fitting(items)
	if len(fit) < len(items) {
		s.rollBack(c) // another item or a concurrent request took the room after the probe
		c.decideEach(fit, engine.Peek)
	}
	return len(fit) == len(items)
}

// countDenials repeats denied probes as attempts, if their policy counts denials. If such an
// attempt fits by now, the request is denied all the same, and its hits count as those of a
// denial.
func (c *call) countDenials(items []*item) {
	for _, it := range items {
		if !it.over || it.rule.Mode != weir.CountDenied {
			continue
		}
		looked := it.result
		c.decideEach([]*item{it}, engine.Attempt)
		if !it.over {
			it.result = looked
		}
		it.charged = false
	}
}

// background is the context of every decision. A cancelled call is charged as well, because a
// client must not bypass a limit by closing its connection. A fallback bounds the time of the
// store, and must not take the cancellation of a proxy for a failure.
var background = context.Background()

// decideEach decides items separately. After an error of an item it does nothing.
func (c *call) decideEach(items []*item, op engine.Op) {
	if len(items) == 0 || c.err != nil { // most requests have items of one kind only
		return
	}
	asked := c.newRequests(items, op, false)
	if len(asked) == 1 { // faster than a batch of one
		asked[0].Decide(background)
	} else {
		enforce.DecideAll(background, asked)
	}
	c.takeResults(items, asked)
}

// reserveTime is the longest life of a reservation of reserveEach. It is longer than a request
// takes. The life is bounded by the longest window of its limits, as on every front.
const reserveTime = 10 * time.Second

// reserveEach attempts items separately, each as a reservation. rollBack can cancel a
// reservation, also one with an answer that was lost. Most reservations are never settled, and their
// units stay as granted.
func (c *call) reserveEach(items []*item) {
	if c.err != nil {
		return
	}
	asked := c.newRequests(items, engine.Attempt, false)
	for i, it := range items {
		if it.n == 0 || it.rule.Reported {
			continue
		}
		it.reservation = rand.Text()
		rules := it.rule.Limiter(&it.target, time.Time{}).Compiled()
		asked[i].Reserve = true
		asked[i].ID = it.reservation
		asked[i].TTL = min(reserveTime, rules.LongestWindow)
	}
	enforce.DecideAll(background, asked)
	c.takeResults(items, asked)
}

// decideTogether decides items as one attempt (rule R7: all or nothing), and reports whether it
// was granted.
func (c *call) decideTogether(items []*item) (bool, error) {
	asked := c.newRequests(items, engine.Attempt, true)
	if err := enforce.DecideTogether(background, asked); err != nil {
		return false, err
	}
	c.takeResults(items, asked)
	for i, it := range items {
		if o := &asked[i].Outcome; !o.Allowed {
			it.over = o.Limit != ""
			it.wait = ownWait(&asked[i])
		}
	}
	return asked[0].Outcome.Allowed, nil
}

// ownWait returns the wait of an item by its own limits. Its decision has the longest wait of
// all items that are decided together.
func ownWait(a *enforce.Item) (wait time.Duration) {
	for i := range a.States {
		st := &a.States[i]
		if st.Name == "" { // unknown
			return a.Outcome.RetryAfter
		}
		wait = max(wait, st.RetryAfter)
	}
	return wait
}

// newRequests returns the requests of items. A decision of one limit has no states, so that a
// cached denial can answer it (rule R8).
func (c *call) newRequests(items []*item, op engine.Op, together bool) []enforce.Item {
	asked := c.asked[:0]
	for _, it := range items {
		r := enforce.Request{Target: it.target, Op: op, N: it.n, Via: step}
		if n := len(it.rule.Limits); n > 1 || together {
			r.States = make([]weir.LimitState, n)
		}
		asked = append(asked, enforce.Item{Rule: it.rule, Request: r})
	}
	c.asked = asked
	return asked
}

// takeResults copies the decisions to the items, and stores the first error in c.err.
func (c *call) takeResults(items []*item, asked []enforce.Item) {
	for i, it := range items {
		a := &asked[i]
		it.charged = false
		if c.err = cmp.Or(c.err, a.Err); a.Err != nil {
			continue
		}
		it.takeResult(c, a)
		c.degraded = c.degraded || a.Outcome.Degraded
		c.warnings = append(c.warnings, a.Outcome.Applied.Warnings...)
	}
}

// takeResult sets the result of the item. It shows the limit that denied the item, otherwise
// the limit with the least remaining hits.
func (it *item) takeResult(c *call, a *enforce.Item) {
	d := &a.Outcome.Decision
	it.result = result{
		over:      !d.Allowed,
		remaining: d.Remaining,
		wait:      d.RetryAfter,
		reset:     d.ResetAfter,
	}
	show := 0
	for i := range a.States {
		st := &a.States[i]
		if st.Name == d.Limit || d.Limit == "" && st.Remaining < a.States[show].Remaining {
			show = i
		}
	}
	if a.States != nil && a.States[show].Name != "" {
		it.remaining = a.States[show].Remaining
		it.reset = a.States[show].ResetAfter
	}
	variation := a.Outcome.Limiter.Compiled() // the numbers of the plan or override that applied
	switch {
	case it.limit != nil:
		it.shown = it.limit.shown
	case variation == c.domain.policy.Compiled:
		it.shown = c.domain.shown[show]
	default:
		it.shown = toShownLimit(&variation.Limits[show])
	}
	if a.Outcome.Applied.Shadow {
		d = &a.Outcome.Applied.Would
	}
	// An attempt of a policy that counts reports charges nothing.
	it.charged = a.Op == engine.Attempt && d.Granted > 0 && !it.rule.Reported
}

// refundItems gives back the hits of the items with is_negative_hits. The protocol does not
// name the instant of the grant. So each limit refunds the oldest hits that still count, and
// never more hits than count (rule R10). The hits that stay are newer than the ones that were
// meant, so they count longer. No window then holds more hits than were granted in it and not
// given back. A policy with count: reported has charged no hits, so it refunds none.
func (s *Service) refundItems(c *call) {
	items := c.itemsOf(refunded)
	if len(items) == 0 {
		return
	}
	charged := slices.DeleteFunc(slices.Clone(items), func(it *item) bool {
		return it.n == 0 || it.rule.Reported
	})
	failed := s.refund(charged)
	c.decideEach(items, engine.Peek)
	for _, it := range items {
		it.over = false
	}
	if !c.degraded { // a degraded decision refunds nothing
		c.err = cmp.Or(c.err, failed)
	}
}

// rollBackTime bounds the time of a rollback.
const rollBackTime = time.Second

// rollBack cancels the reservations of a request that is denied or fails, and drops the
// warnings of its grants. Its other charges stay and are counted, as do reservations that
// cannot be cancelled. Their limits then grant too little, never too much.
func (s *Service) rollBack(c *call) {
	c.warnings = nil
	var reserved []*item
	kept := int64(0)
	for i := range c.items {
		switch it := &c.items[i]; {
		case it.reservation != "" && (it.charged || c.err != nil): // the answer may have been lost
			reserved = append(reserved, it)
		case it.charged:
			kept += it.n
		}
	}
	kept += s.cancel(reserved)
	s.Counts.Kept.Add(kept)
}

// cancel settles reservations with 0 units. It returns the number of hits that stay charged.
func (s *Service) cancel(reserved []*item) (kept int64) {
	if len(reserved) == 0 {
		return 0
	}
	ctx, stop := context.WithTimeout(background, rollBackTime)
	defer stop()
	calls := make([]engine.Call, len(reserved))
	for i, it := range reserved {
		calls[i] = engine.Call{
			Rules:  it.rule.Limiter(&it.target, time.Time{}).Compiled(),
			Key:    it.target.Key,
			Op:     engine.Settle,
			ID:     it.reservation,
			Outage: it.rule.WhenStoreIsDown,
		}
	}
	s.options.Engine.Do(ctx, calls)
	for i, it := range reserved {
		r := &calls[i].Result
		err := calls[i].Err
		switch {
		case errors.Is(err, engine.ErrExpired): // the reservation was never granted
		case err != nil:
			kept += it.n
			s.outages.NoDecision(err)
		case it.rule.Handle != nil:
			request := enforce.Request{
				Target: it.target,
				Op:     engine.Settle,
				ID:     it.reservation,
				Via:    step,
			}
			it.observe(request, weir.Decision{Granted: r.Granted, At: r.At})
		}
		it.charged = false
		it.reservation = ""
	}
	return kept
}

// observe reports a step of the item that package enforce did not make. The rule of the item
// has a handle.
func (it *item) observe(r enforce.Request, d weir.Decision) {
	made := enforce.Item{Request: r, Outcome: enforce.Outcome{Decision: d}}
	it.rule.Handle.Observe(enforce.Call{Item: made})
}

// refund gives back the oldest hits of items. It returns the last error.
func (s *Service) refund(items []*item) (err error) {
	calls := make([]engine.Call, len(items))
	for i, it := range items {
		calls[i] = engine.Call{
			Rules:  it.rule.Limiter(&it.target, time.Time{}).Compiled(),
			Key:    it.target.Key,
			Op:     engine.Refund,
			N:      it.n,
			From:   engine.Oldest,
			Outage: it.rule.WhenStoreIsDown,
		}
	}
	s.options.Engine.Do(background, calls)
	for i, it := range items {
		took := calls[i].Result.Granted
		if it.limit != nil {
			it.limit.tally.Refunded.Add(took)
		}
		if calls[i].Err != nil {
			err = calls[i].Err
		} else if took > 0 && it.rule.Handle != nil {
			request := enforce.Request{
				Target: it.target,
				Op:     engine.Refund,
				From:   time.UnixMicro(engine.Oldest),
				N:      it.n,
				Via:    step,
			}
			it.observe(request, weir.Decision{Allowed: true, Granted: took})
		}
	}
	return err
}
