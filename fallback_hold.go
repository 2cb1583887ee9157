package weir

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// hold keeps the grants of shares a window away from those of the store. Let the
// store be out for everybody from T0 to T1, where processes may differ by up to
// skew in when they notice each. For a policy whose longest window is w:
//
//   - A share grants nothing before w + skew after the first failure. The store
//     granted nothing after T0, so no window holds grants of both.
//   - After T1, until w + skew, this process has the store grant only what its share
//     grants too, unless its outage was shorter than w - skew: then no share had
//     begun to grant. A window thus holds what shares granted, or what the store
//     did, and never both.
//   - A share grants only while the store was found failing a moment ago, so that
//     a process which slept through T1 does not grant on old news.
//
// Times are nanoseconds of the guard's clock.
type hold struct {
	skew  int64 // by how much processes differ
	fresh int64 // how long a failure is news: a probe's interval, and a call

	lastGood atomic.Int64 // when the last call that succeeded was asked
	lastBack atomic.Int64 // when the store was last found again
	failing  atomic.Bool  // the last call noted failed

	mu       sync.Mutex // protects changes of failing, and the following
	firstBad int64      // when the first failure after lastGood was noticed
	lastBad  int64      // when the last call that failed was asked
	outages  []outage   // newest last; an older one is kept while it was longer
}

// outage is one that is over.
type outage struct {
	back int64 // when the store was found again
	gap  int64 // how long it had been out at most
}

const (
	longAgo     = -1 << 60 // before every instant, and far from overflow
	mostOutages = 32
)

func newHold(budget time.Duration) *hold {
	h := &hold{
		skew:  int64(time.Second + budget),
		fresh: int64(probeMax + 100*time.Millisecond + budget),
	}
	h.lastGood.Store(longAgo)
	h.lastBack.Store(longAgo)
	return h
}

// succeeded notes a call that the store answered: when it was asked, and now.
func (h *hold) succeeded(asked, now int64) {
	if h.failing.Load() {
		h.mu.Lock()
		if h.failing.Load() {
			h.over(outage{back: now, gap: now - h.lastGood.Load()})
			h.failing.Store(false)
		}
		h.mu.Unlock()
	}
	h.lastGood.Store(asked)
}

// over remembers an outage, and forgets older ones that were not longer: it
// matters to every policy they matter to, and for a longer time.
func (h *hold) over(o outage) {
	for n := len(h.outages); n > 0 && h.outages[n-1].gap <= o.gap; n-- {
		h.outages = h.outages[:n-1]
	}
	h.outages = append(h.outages, o)
	if len(h.outages) > mostOutages { // as one, as long and as late as both
		h.outages[1].gap = h.outages[0].gap
		h.outages = h.outages[1:]
	}
	h.lastBack.Store(o.back)
}

// failed notes a call that the store did not decide: when it was asked, and now.
func (h *hold) failed(asked, now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.failing.Load() {
		h.firstBad, h.lastBad = now, asked
		h.failing.Store(true)
	}
	h.lastBad = max(h.lastBad, asked)
}

// beforeShare is how long the share must still refuse by p; 0 = it may grant.
func (h *hold) beforeShare(p *Plan, now int64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, w := longest(p)
	switch {
	case !h.failing.Load(): // nobody knows since when
		return time.Duration(w + h.skew)
	case now < h.firstBad+w+h.skew:
		return time.Duration(h.firstBad + w + h.skew - now)
	case now > h.lastBad+h.fresh:
		return untilBack
	}
	return 0
}

// beforeStore is how long the store must not grant more by p than the share yet; 0 =
// it may. While calls fail, that holds for the one that finds the store again.
//
// Who was never answered by the store does not know for how long it had been out
// for others, and takes it for longer than any window.
func (h *hold) beforeStore(p *Plan, now int64) time.Duration {
	_, w := longest(p)
	if h.failing.Load() && now-h.lastGood.Load() > w-h.skew {
		return time.Duration(w + h.skew)
	}
	if now >= h.lastBack.Load()+w+h.skew {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.outages) - 1; i >= 0; i-- {
		if o := h.outages[i]; o.gap > w-h.skew {
			return time.Duration(max(0, o.back+w+h.skew-now))
		}
	}
	return 0
}

// longest returns the limit of p that counts a unit for the longest time, and how
// long that is, in nanoseconds.
func longest(p *Plan) (limit int, w int64) {
	for i := range p.limits {
		if l := &p.limits[i]; l.Window+l.Cell > w {
			limit, w = i, l.Window+l.Cell
		}
	}
	return limit, w * int64(time.Microsecond)
}

// decideHeld is Decide with a hold.
func (f *FallbackEngine) decideHeld(ctx context.Context, q *question) (Decision, error) {
	if wait := f.store.hold.beforeStore(q.plan, f.store.now()); wait > 0 {
		return f.decideBoth(ctx, q, wait)
	}
	var r reply
	if !f.store.ask(ctx, q, &r) {
		return f.fall(q, r.err)
	}
	return r.decision, r.err
}

// decideLocally answers by the share, or refuses while it is held.
func (f *FallbackEngine) decideLocally(q *question, d *Decision) error {
	put, wait := *q, time.Duration(0)
	if h := f.store.hold; h != nil && q.ask.Op != OpRecord {
		if wait = h.beforeShare(q.plan, f.store.now()); wait > 0 {
			asPeek(&put)
		}
	}
	if err := f.store.share().decide(&put, d); err != nil {
		return err
	}
	if wait > 0 {
		refuse(q.plan, d, wait)
	}
	return nil
}

// asPeek makes an attempt that will be refused a peek, except in CountDenied,
// where refused attempts count (R6): then without its id, under which the share would
// know it as granted.
func asPeek(q *question) {
	if q.plan.Mode() != CountDenied {
		q.ask.Op = OpPeek
	}
	q.ask.ID = ""
}

// refuse makes d a refusal for at least the wait.
func refuse(p *Plan, d *Decision, wait time.Duration) {
	d.Allowed, d.Granted, d.Degraded = false, 0, true
	if d.RetryAfter != Never && d.RetryAfter < wait || d.Limit == "" {
		i, _ := longest(p)
		d.Limit = p.limits[i].Name
	}
	if d.RetryAfter != Never {
		d.RetryAfter = max(d.RetryAfter, time.Duration(micros(wait))*time.Microsecond)
	}
}
