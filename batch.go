package weir

import "context"

// Call is one request of a batch, with its answer.
type Call struct {
	Plan    *Plan // the policy; [Limiter.DecideAll] sets it
	Key     Key
	Request Request

	Decision Decision // the answer; the zero Decision with an Err
	Err      error    // as Limiter.Decide returns it
}

// BatchEngine is an Engine that decides several requests in one call. Memory,
// weirredis.Engine, weirdisk.Engine and fallback.Engine implement it.
type BatchEngine interface {
	Engine

	// DecideAll decides calls in their order and sets Decision and Err of each. It skips
	// calls with an Err. It answers as Decide would, one call after the other, at one
	// instant; several calls for one history see each other's units.
	//
	//   - Each call is an atomic step of its own. Other callers may decide in between.
	//   - An error of one call does not stop the others.
	//   - Requests without an instant share one reading of the clock, as far as R1 and R2
	//     allow: after a change of its history by another caller, a decision has a later
	//     instant.
	DecideAll(ctx context.Context, calls []Call)
}

// DecideAll decides several requests on the limiter's policy, in their order: on memory with
// one reading of the clock, on Redis in one round trip, on disk with one wait. Each has its
// own decision or error, that of [Limiter.Decide], and denials change nothing for the others.
// It sets Plan, Decision and Err of each call.
//
// [Limiter.DecideTogether] charges all requests or none.
func (l *Limiter) DecideAll(ctx context.Context, calls []Call) {
	for i := range calls {
		c := &calls[i]
		c.Err = l.prepare(c)
	}
	if l != nil && l.plan != nil {
		DecideAll(ctx, l.engine, calls)
	}
}

// Call returns a call for [DecideAll], which can mix the policies of several limiters. Its
// Err is that of bad input (R14).
func (l *Limiter) Call(key Key, r Request) Call {
	c := Call{Key: key, Request: r}
	c.Err = l.prepare(&c)
	return c
}

// prepare sets the plan of a call and checks the call.
func (l *Limiter) prepare(c *Call) error {
	c.Decision = Decision{}
	r := &c.Request
	clear(r.States)
	if err := l.check(&c.Key, r.N); err != nil {
		return err
	}
	c.Plan = l.plan
	if err := l.setInstant(r); err != nil {
		return err
	}
	return r.check(l.plan)
}

// DecideAll decides calls of [Limiter.Call] on an engine, in their order. An engine that is
// no [BatchEngine] decides one after the other, each at an instant of its own.
func DecideAll(ctx context.Context, e Engine, calls []Call) {
	if b, ok := e.(BatchEngine); ok {
		b.DecideAll(ctx, calls)
		return
	}
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			if c.Decision, c.Err = e.Decide(ctx, c.Plan, c.Key, c.Request); c.Err != nil {
				clear(c.Request.States)
			}
		}
	}
}

// DecideAll decides calls in their order. The clock is read once for all calls that
// allowSimple can decide. The others read it under their locks, as single calls do; after
// such a call it is read anew, so that no instant lies before an earlier one of the key (R1).
func (m *Memory) DecideAll(_ context.Context, calls []Call) {
	now := reading(m.now())
	for i := range calls {
		c := &calls[i]
		r := &c.Request
		if c.Err != nil {
			continue
		}
		c.Decision = Decision{}
		if b := m.compiled(c.Plan); b.simple && r.Op == OpAttempt && r.ID == "" && r.At.IsZero() &&
			m.allowSimple(b, &c.Key, r.N, now, r.States, &c.Decision) {
			continue
		}
		if c.Err = m.handle(c.Plan, &c.Key, r, &c.Decision); c.Err != nil {
			c.Decision = Decision{}
			clear(r.States)
		}
		now = reading(m.now())
	}
}
