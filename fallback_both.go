package weir

import (
	"cmp"
	"context"
	"time"
)

// decideBoth decides while the store must not grant freely yet, for the wait: it
// grants what both the store and the share grant, and both record it. All that was
// granted without the store lately was granted by shares, and so is this; hence no
// window holds more than their sum, which is Max at most.
//
// The store is asked first, for no more than fits the share. If others of this
// process are faster at the share, what the store has recorded is refused all the
// same: that errs on the safe side.
func (f *FallbackEngine) decideBoth(ctx context.Context, q *question, wait time.Duration) (Decision, error) {
	share, counted := f.store.share(), q.plan.Mode() == CountDenied
	fits, err := share.peek(q)
	if err != nil {
		return Decision{}, err
	}
	put := *q
	if q.ask.names() && fits.Granted < q.ask.N { // made again, it must ask for as much
		fits.Granted, fits.Allowed = 0, false
		if !counted { // then it only looks, and its first answer is to be found otherwise
			switch d, known, err := f.known(ctx, q); {
			case err != nil:
				return d, err
			case known:
				return f.again(q, &d, &fits, wait)
			}
		}
	}
	if n := fits.Granted; n > 0 {
		put.ask.N = n
	} else if !counted { // where refused attempts count, they do in full (R6)
		put.ask.Op = OpPeek
	}
	var r reply
	if !f.store.ask(ctx, &put, &r) {
		return f.fall(q, r.err)
	}
	if r.err != nil {
		return r.decision, r.err
	}
	if r.decision.Repeated {
		return f.again(q, &r.decision, &fits, wait)
	}
	mine := fits // what the share says when it is over
	if put.writes() && (r.decision.Granted > 0 || counted) {
		if mine, err = share.follow(q, cmp.Or(r.decision.Granted, q.ask.N), false); err != nil {
			return Decision{}, err
		}
	}
	f.join(q, &r.decision, &fits, &mine, wait)
	return r.decision, nil
}

// again answers an operation that the store has decided before, as d says. What it has
// granted counts for the share too, once: if the share has not heard of it, since its
// answer was lost or others were faster, the share is asked now. For as long as that
// refuses, so does the answer.
func (f *FallbackEngine) again(q *question, d, fits *Decision, wait time.Duration) (Decision, error) {
	if d.Granted == 0 {
		return *d, nil
	}
	mine, err := f.store.share().follow(q, d.Granted, true)
	if err != nil {
		return Decision{}, err
	}
	if mine.Granted == d.Granted {
		return *d, nil
	}
	less := mine
	less.Granted, less.RetryAfter = d.Granted, 0
	f.join(q, &less, fits, &mine, wait)
	return less, nil
}

// known asks the store for the answer to an operation that was made before, and reports
// whether it was. Limits without room refuse one that was not, so that nothing changes.
// While the store cannot be asked none is known.
func (f *FallbackEngine) known(ctx context.Context, q *question) (d Decision, known bool, err error) {
	put := *q
	put.plan = q.plan.withoutRoom()
	var r reply
	if !f.store.ask(ctx, &put, &r) {
		return d, false, nil
	}
	return r.decision, r.err == nil && r.decision.Repeated, r.err
}

// join makes d, which the store decided, right by the share too: fits is what it
// said before, mine what it granted and says now. wait is for how long it is asked.
func (f *FallbackEngine) join(q *question, d, fits, mine *Decision, wait time.Duration) {
	granted := min(d.Granted, mine.Granted)
	bound := granted < d.Granted || granted < q.ask.N && fits.Limit != ""
	d.Remaining = min(d.Remaining, mine.Remaining)
	own := mine.RetryAfter
	if own == Never || own > wait {
		own = time.Duration(micros(wait)) * time.Microsecond
	}
	if bound {
		if d.Limit == "" || own >= d.RetryAfter {
			i, _ := longest(q.plan)
			d.Limit = cmp.Or(fits.Limit, mine.Limit, q.plan.limits[i].Name)
		}
		d.Granted, d.Allowed, d.Degraded = granted, granted > 0, true
		f.store.degraded.Add(1)
	}
	switch {
	case firstBelow(q.plan, q.ask.N) >= 0:
		d.RetryAfter = Never
	case d.RetryAfter != Never:
		d.RetryAfter = max(d.RetryAfter, own)
	}
}
