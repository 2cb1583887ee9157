package weir

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/internal/option"
	"github.com/weirlimit/weir/internal/shorten"
)

// Limiter applies one policy on one engine. It is safe for concurrent use. Every call of
// the zero or nil Limiter, and every call with a nil context, returns an [InputError].
type Limiter struct {
	rules  *engine.Compiled
	whole  *engine.Compiled // the rules of Wait: the same histories, all or nothing
	engine engine.Engine
	memory *memory.Memory // engine, if it is a Memory
	inside *memory.Rules  // rules in its own form, unless fixed
	outage engine.Outage
	fixed  bool // At made it: calls are decided at the instant at
	at     time.Time
}

// own stands for a memory engine of the limiter's own.
var own engine.Engine = new(Memory)

// Option sets one property of a Limiter that [New] makes. A nil Option changes nothing.
type Option func(*config)

type config struct {
	engine engine.Engine
	outage engine.Outage
}

// WithEngine makes the limiter decide on e. Limiters on one engine share the histories of
// policies and limits with the same names (R12). A nil engine is an error of [New], because
// limits that several processes share would silently become limits of each. Default: a memory
// engine of its own.
func WithEngine(e engine.Engine) Option { return func(c *config) { c.engine = e } }

// WithOutage sets the answer to calls that the store cannot decide (R15), where the engine is
// that of package fallback. Other engines ignore it. Default, also for [engine.OutageDefault]:
// the mode of that engine.
func WithOutage(o engine.Outage) Option { return func(c *config) { c.outage = o } }

// New checks every field of the policy and returns its limiter. The error is a
// *PolicyError that names the limit and the field, or an *InputError for a nil engine.
func New(p Policy, opts ...Option) (*Limiter, error) {
	rules, err := p.Compile()
	if err != nil {
		return nil, err
	}
	l := &Limiter{rules: rules, whole: rules}
	if p.Mode == Partial {
		p.Mode = AllOrNothing
		if l.whole, err = p.Compile(); err != nil {
			return nil, err
		}
	}
	c := config{engine: own}
	option.Apply(&c, opts)
	l.engine, l.outage = c.engine, c.outage
	if isnil.Is(l.engine) {
		return nil, engine.Input("request", "WithEngine got a nil engine; "+
			"open the engine first, or leave the option out for one in memory")
	}
	if l.engine == own {
		l.engine = NewMemory()
	}
	if m, ok := innermost(l.engine).(*Memory); ok && m.engine == nil {
		return nil, engine.Input("request",
			"WithEngine got the zero Memory; make one with weir.NewMemory")
	}
	if m, ok := l.engine.(*Memory); ok { // not inside Observe, which sees every call
		l.memory = m.engine
		l.inside = m.engine.Rules(rules)
	}
	return l, nil
}

// At returns a limiter that decides all calls at instant t instead of at the engine's clock
// (R1), for replay and tests. t is 1970-01-01T00:00:00Z … MaxInstant µs later, cut to whole
// microseconds. Calls at an instant out of range, such as the zero time.Time, return an
// [InputError], as do a wait and a reservation at any instant. Reset has no instant.
func (l *Limiter) At(t time.Time) *Limiter {
	var fixed Limiter
	if l != nil {
		fixed = *l
	}
	fixed.fixed, fixed.at = true, t
	fixed.inside = nil
	return &fixed
}

// Compiled returns the rules of the policy, for engines and front ends; nil for the zero or nil
// Limiter.
func (l *Limiter) Compiled() *engine.Compiled {
	if l == nil {
		return nil
	}
	return l.rules
}

// Key makes a key of named values. Every dimension of the policy needs a value, and no other
// names are allowed. The error is an [InputError] that gives a name which is unknown or missing,
// and all dimensions.
func (l *Limiter) Key(values map[string]string) (Key, error) {
	if l == nil || l.rules == nil {
		return Key{}, errZeroLimiter
	}
	return l.rules.Key(values)
}

// Allow is AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key Key) (d Decision, err error) {
	err = l.allow(ctx, &key, 1, &d)
	return d, err
}

// AllowN decides an attempt of n units now. It records the granted units in every limit
// of the policy or in none (R7). An attempt of 0 units is a peek.
func (l *Limiter) AllowN(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.allow(ctx, &key, n, &d)
	return d, err
}

// allow is AllowN by reference. Allow and AllowN are inlined into their callers, which
// saves a copy of the key and one of the decision: 10 ns of 80 on a hot key.
func (l *Limiter) allow(ctx context.Context, key *Key, n int64, d *Decision) error {
	if ctx == nil || l == nil || l.inside == nil || !memory.Takes(l.rules, key, n) {
		return l.decide(ctx, engine.Attempt, key, n, d)
	}
	if !l.inside.AllowFast(key, n, (*engine.Result)(d)) {
		if err := l.inside.Allow(key, n, (*engine.Result)(d)); err != nil {
			return err
		}
	}
	if d.Limit != "" {
		d.explain(l.rules)
	}
	return nil
}

// AllowOnce is [Limiter.AllowN] with an idempotency key. A caller that does not know the
// outcome of a call ([ErrOutcomeUnknown]) repeats it with the same id, and is charged once.
//
// The repeated call returns the first decision unchanged, with Replayed. This holds for
// the same policy, key and id, for as long as a unit can count in some limit, and at least a
// minute. A denial records nothing (R4), so its id is not remembered and a repeated call is
// decided again. In [CountDenied] a denial is recorded and remembered. An id that was used
// with other units or for a record returns an [InputError].
//
// The id is 1 … MaxIDBytes arbitrary bytes, such as a UUID or an order number. Choose it
// before the first call and store it with the operation. Refund and Reset do not forget
// it: they change histories, not earlier answers.
//
// A record or a refund takes an id in a [Call]. A refund that took nothing is not remembered.
func (l *Limiter) AllowOnce(
	ctx context.Context, key Key, n int64, id string,
) (d Decision, err error) {
	if id == "" {
		return d, engine.Input("id", "it is empty; give each operation an id of its own")
	}
	c := Call{Limiter: l, Key: key, Request: Request{N: n, ID: id}}
	if n == 0 { // a peek, as of AllowN
		c.Op, c.Request.ID = engine.Peek, ""
	}
	return c.Do(ctx)
}

// Peek returns the decision that an attempt of n units would get now, and changes
// nothing. Remaining, RetryAfter and ResetAfter are those of the present state (R4).
func (l *Limiter) Peek(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.decide(ctx, engine.Peek, &key, n, &d)
	return d, err
}

// Record adds n units without a decision, for a cost that is known only afterwards. Room
// may be below 0 after it (R10). Allowed is true and Granted is n. A record of 0 units is a peek.
func (l *Limiter) Record(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.decide(ctx, engine.Record, &key, n, &d)
	return d, err
}

// Decide decides an attempt with all its options: an id, an instant, and the state of every
// limit from the same atomic step (Request.States). Without an instant (Request.At) it
// decides now. A limiter of [Limiter.At] ignores that of the request.
//
// r.States is nil or as long as Compiled().Limits, in their order; other lengths return an
// [InputError]. Decide clears it first, and also when it fails.
//
// A [Call] gives other operations than attempts these options.
func (l *Limiter) Decide(ctx context.Context, key Key, r Request) (Decision, error) {
	c := Call{Limiter: l, Key: key, Request: r}
	return c.Do(ctx)
}

// Refund takes back up to n units of the entry granted at instant at (the At of its
// Decision) in every limit of the policy, never below zero. It returns the most units that it
// took in one limit (R10).
//
// It returns 0 without an error if no unit of the key counts that was granted at that instant:
// after the entry's window, after an earlier refund, and for another instant than that of the
// grant, such as time.Now().
func (l *Limiter) Refund(
	ctx context.Context, key Key, at time.Time, n int64,
) (refunded int64, err error) {
	c := Call{Limiter: l, Key: key, Op: engine.Refund, From: at, Request: Request{N: n}}
	if n == 0 { // takes nothing back, and the rest must be right all the same
		if c.Request.N = 1; ctx == nil {
			return 0, misuse.ErrNoContext
		}
		return 0, c.Check()
	}
	d, err := c.Do(ctx)
	return d.Granted, err
}

// Count returns the units recorded in the limit in (now - last, now]. With Cells it
// includes every cell that overlaps the span, and with fixed windows (Kind) the whole
// open window, so the result is never too low. 0 < last <= Window (R11); last is rounded
// up to a microsecond.
func (l *Limiter) Count(
	ctx context.Context, key Key, limit string, last time.Duration,
) (int64, error) {
	var c engine.Call
	if err := l.prepare(&c, engine.Count, &key, 0); err != nil {
		return 0, err
	}
	c.Limit = l.rules.LimitNamed(limit)
	if c.Limit < 0 {
		return 0, engine.Input("limit", "policy %q has no limit %q; use one of %q",
			l.rules.Name, shorten.Text(limit), l.rules.LimitNames())
	}
	of := &l.rules.Limits[c.Limit]
	if of.Kind == KindBucket {
		return 0, engine.Input("kind", "limit %q is a token bucket, "+
			"which stores no instants to count; read its room with a Peek", limit)
	}
	c.From = int64((last + time.Microsecond - 1) / time.Microsecond)
	if c.From < 1 || c.From > of.Window {
		return 0, engine.Input("span", "%v; limit %q counts over more than 0 and at most %v",
			last, limit, time.Duration(of.Window)*time.Microsecond)
	}
	l.do(ctx, &c)
	return c.Result.Granted, c.Err
}

// Reset forgets the key's histories in the limits that count by every dimension of the policy
// (R10). Those of other limits are shared with further keys: they are kept, unless limits names
// them. With names only the named limits are reset, and the key may have the values of the
// dimensions that these count by alone.
//
// It returns the names of the limits that were reset, also if they had no history for the key.
// A name that no limit has is an [InputError], and so is a reset without names of a policy with
// no limit that counts by every dimension.
func (l *Limiter) Reset(
	ctx context.Context, key Key, limits ...string,
) (reset []string, err error) {
	c := engine.Call{Op: engine.Reset}
	if err := l.selectLimits(&c, &key, limits, "reset"); err != nil {
		return nil, err
	}
	if l.do(ctx, &c); c.Err != nil {
		return nil, c.Err
	}
	return c.Rules.LimitNames(), nil
}

// Block denies every attempt and peek of the key for d, or until the end of a running block if
// that is later (R20). It returns the end of the block. It charges nothing. It is for
// operators, and for a provider that asks to be left alone until an instant (Retry-After). A limit
// begins blocks by itself with [Limit.Blocking].
//
// d is more than 0 and at most 400 days, rounded up to a microsecond. 0 ends running blocks and
// forgets nothing else; the zero Time is returned then. Other values are an [InputError].
//
// It blocks the limits that [Limiter.Reset] would forget: those that count by every dimension, or
// the named ones, whose key may have the values of their dimensions alone. [Limiter.Reset] ends a
// block too. A limiter of [Limiter.At] blocks from its instant on.
func (l *Limiter) Block(
	ctx context.Context, key Key, d time.Duration, limits ...string,
) (until time.Time, err error) {
	c := engine.Call{Op: engine.Block}
	if err := l.selectLimits(&c, &key, limits, "block"); err != nil {
		return time.Time{}, err
	}
	if d < 0 || d > MaxWindow {
		return time.Time{}, engine.Input("span", "%v; a block lasts more than 0 and at most %v, "+
			"and 0 ends it", d, MaxWindow)
	}
	c.From = int64((d + time.Microsecond - 1) / time.Microsecond)
	if err := l.setInstant(&c); err != nil {
		return time.Time{}, err
	}
	if l.do(ctx, &c); c.Err != nil || c.Result.Blocked == 0 {
		return time.Time{}, c.Err
	}
	return c.Result.At.Add(c.Result.Blocked), nil
}

// selectLimits sets the rules and the key of a reset or a block, as operation names it: the limits
// of the given names, or without names those that count by every dimension.
func (l *Limiter) selectLimits(c *engine.Call, key *Key, names []string, operation string) error {
	if l == nil || l.rules == nil {
		return errZeroLimiter
	}
	rules, err := l.rules.Resets(names)
	if err != nil {
		return err
	}
	of := l.rules // the rules that key has the values of
	if key.Len() != len(of.Dimensions) && len(names) > 0 {
		of = rules
	}
	if key.Len() != len(of.Dimensions) {
		return l.selectedKeyError(rules, key.Len(), len(names) > 0, operation)
	}
	if err := of.CheckKey(key); err != nil {
		return err
	}
	c.Rules, c.Outage = rules, l.outage
	for i, name := range of.Dimensions {
		if slices.Contains(rules.Dimensions, name) {
			c.Key.Append(key.Value(i))
		}
	}
	return nil
}

// selectedKeyError returns the error of an operation by rules whose key has n values, too few or
// too many.
func (l *Limiter) selectedKeyError(
	rules *engine.Compiled, n int, named bool, operation string,
) error {
	takes, hint := fmt.Sprintf("%q", rules.Dimensions), ""
	switch {
	case !named:
		hint = misuse.ResetHint(l.rules, func(of *engine.Limit) bool { return len(of.By) == n })
	case len(rules.Dimensions) < len(l.rules.Dimensions):
		takes += fmt.Sprintf(", or of all of %q", l.rules.Dimensions)
	}
	return engine.Input("key", "a %s of %q takes the values of %s; this key has %d%s",
		operation, rules.LimitNames(), takes, n, hint)
}

var errZeroLimiter = engine.Input("request",
	"the zero or nil Limiter decides nothing; make one with weir.New")

// check rejects bad input before it reaches the engine (R14).
func (l *Limiter) check(key *Key, n int64) error {
	if l == nil || l.rules == nil {
		return errZeroLimiter
	}
	if uint64(n) > uint64(MaxUnits) {
		return engine.Input("units", "%d; use 0 to %d", n, MaxUnits)
	}
	return l.rules.CheckKey(key)
}

// prepare checks the key and the units of a call (R14). It sets c, a zero call, to them, the
// rules, and the instant of [Limiter.At] if there is one.
func (l *Limiter) prepare(c *engine.Call, op engine.Op, key *Key, n int64) (err error) {
	if err := l.check(key, n); err != nil {
		return err
	}
	c.Rules, c.Outage = l.rules, l.outage
	c.Op, c.Key = op, *key
	c.N = n
	return l.setInstant(c)
}

// setInstant sets the instant of [Limiter.At] in a call, if there is one.
func (l *Limiter) setInstant(c *engine.Call) (err error) {
	if l.fixed {
		c.At, err = instant(l.at, "or call the Limiter itself to decide now")
		c.Given = true
	}
	return err
}

// decide makes a call without options. It writes the engine's decision to d, or the zero
// Decision and an error.
func (l *Limiter) decide(ctx context.Context, op engine.Op, key *Key, n int64, d *Decision) error {
	var c engine.Call
	if err := l.prepare(&c, op, key, n); err != nil {
		return err
	}
	if l.do(ctx, &c); c.Err != nil {
		return c.Err
	}
	d.answer(&c)
	return nil
}

// answerOf returns the decision of a call without an error.
func answerOf(c *engine.Call) (d Decision) {
	d.answer(c)
	return d
}

// answer sets d, a zero Decision, to that of a call without an error.
func (d *Decision) answer(c *engine.Call) {
	if c.Op == engine.Refund {
		d.Allowed = true
		d.Granted = c.Result.Granted
		d.Degraded = c.Result.Degraded
		d.Replayed = c.Result.Replayed
		return
	}
	*d = Decision(c.Result)
	if d.Limit != "" {
		d.explain(c.Rules)
	}
}

// do decides a call. It calls the memory engine directly and by reference: nothing leaves the
// stack. The calls of other engines are pooled.
func (l *Limiter) do(ctx context.Context, c *engine.Call) {
	if ctx == nil {
		c.Err = misuse.ErrNoContext
		return
	}
	if l.memory != nil {
		l.memory.Decide(c)
		return
	}
	pooled := take(1)
	defer release(pooled)
	(*pooled)[0] = *c
	l.engine.Do(ctx, *pooled)
	if c.Result, c.Err = (*pooled)[0].Result, (*pooled)[0].Err; c.Err != nil {
		c.Fail(c.Err) // whatever the engine left in it
	}
}

// Request is one attempt with its options. Request{N: 1} attempts one unit now.
type Request struct {
	N int64 // units, 1 … MaxUnits; 0 is an InputError, because Peek charges nothing

	// At is the instant of the attempt (R1): the zero Time for now, by the engine's clock, or
	// 1970-01-01T00:00:00Z … MaxInstant µs later.
	At time.Time

	States []LimitState // nil, or filled with the state of every limit after the decision

	// ID is the idempotency key, "" or 1 … MaxIDBytes bytes: a repeated call is charged
	// once (Limiter.AllowOnce).
	ID string

	TTL time.Duration // time to live of the reservation; only for Limiter.Reserve

	// MaxWait is the longest time for which the caller may wait, 0 … 400 days, rounded down to a
	// microsecond; Never stands for 400 days. An attempt that does not fit now is granted if it
	// fits in full within MaxWait, and its use begins Decision.StartAfter after Decision.At (R18).
	// The call does not block: sleep for StartAfter, or use Wait. A refund at the instant at which
	// the use begins, before it, takes back everything, also a Cost. 0 does not wait.
	//
	// It is an InputError in mode CountDenied, under a concurrency limit, in calls that are decided
	// together, and with another operation than an attempt.
	MaxWait time.Duration
}

// set checks the options of a request and sets them in its call (R14).
func (r *Request) set(c *engine.Call) (err error) {
	switch {
	case r.TTL != 0:
		return engine.Input("request", "TTL is for Limiter.Reserve; leave it out")
	case r.States != nil && len(r.States) != len(c.Rules.Limits):
		return engine.Input("request",
			"room for %d states, and policy %q has %d limits; make it as long as Compiled().Limits",
			len(r.States), c.Rules.Name, len(c.Rules.Limits))
	case len(r.ID) > MaxIDBytes:
		return errLongID(r.ID)
	}
	if err := r.setMaxWait(c); err != nil {
		return err
	}
	c.ID, c.States = r.ID, r.States
	if !r.At.IsZero() && !c.Given {
		c.At, err = instant(r.At, "or leave it out to decide now")
		c.Given = true
	}
	return err
}

// setMaxWait checks the wait of a request and sets it in its call (R18).
func (r *Request) setMaxWait(c *engine.Call) error {
	if r.MaxWait == 0 {
		return nil
	}
	wait := r.MaxWait
	if wait == Never {
		wait = MaxWindow
	}
	switch {
	case wait < 0 || wait > MaxWindow:
		return engine.Input("wait", "MaxWait is %v; use 0 to %v, or Never", r.MaxWait, MaxWindow)
	case c.Op != engine.Attempt:
		return engine.Input("wait", "MaxWait is for attempts; leave it out of other operations")
	case c.Rules.Mode == CountDenied:
		return engine.Input("wait", "policy %q counts denied attempts, "+
			"so none of them can wait; leave MaxWait out", c.Rules.Name)
	case hasHold(c.Rules):
		return engine.Input("wait", "policy %q has a concurrency limit, "+
			"and nobody knows when its units are released; leave MaxWait out", c.Rules.Name)
	}
	c.MaxWait = wait.Microseconds()
	return nil
}

// errLongID returns the error of an id above MaxIDBytes.
func errLongID(id string) error {
	return engine.Input("id", "it is %d bytes long; at most %d are allowed", len(id), MaxIDBytes)
}

// The first and the last instant that a caller may give.
const (
	firstInstant = "1970-01-01T00:00:00Z"        // 0 µs
	lastInstant  = "2255-06-05T23:47:34.740991Z" // MaxInstant µs
)

// instant converts an instant of the caller to microseconds since 1970, cut to whole ones. The
// error ends with next.
func instant(t time.Time, next string) (int64, error) {
	if !isInstant(t) {
		return 0, engine.Input("instant", "%s; use %s to %s, %s",
			t.Format(time.RFC3339Nano), firstInstant, lastInstant, next)
	}
	return t.UnixMicro(), nil
}

// isInstant reports whether a caller may give the instant. Far away, microseconds overflow.
func isInstant(t time.Time) bool {
	s := t.Unix()
	return s >= 0 && s <= MaxInstant/1_000_000 && t.UnixMicro() <= MaxInstant
}
