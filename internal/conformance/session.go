package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// session applies the steps of one vector to one engine.
type session struct {
	policies
	engine  engine.Engine
	prefix  string // begins the name of every policy
	epoch   int64
	limiter *weir.Limiter // applies the current policy
	live    bool          // steps use the engine's clock instead of their instants
}

// freshPrefix returns the start of a policy name that no other run has used, because a
// store may outlive the test.
func freshPrefix() string {
	return fmt.Sprintf("w%s-%d.", processNonce, prefixes.Add(1))
}

var (
	processNonce = strconv.FormatInt(time.Now().UnixNano(), 36)
	prefixes     atomic.Int64
)

func newSession(e engine.Engine, v *vector) (*session, error) {
	s := &session{policies: newPolicies(v), engine: e, prefix: freshPrefix(), epoch: v.epoch}
	return s, s.open()
}

// validSession is newSession of a vector that this package has made.
func validSession(e engine.Engine, v *vector) *session {
	s, err := newSession(e, v)
	mustBeValid(err)
	return s
}

// mustBeValid panics if a policy or a change made by this package is invalid.
func mustBeValid(err error) {
	if err != nil {
		panic("conformance: a random policy is invalid: " + err.Error())
	}
}

// open makes the limiter of the current policy with its present numbers.
func (s *session) open() (err error) {
	s.limiter, err = weir.New(s.current.policy(s.prefix), weir.WithEngine(s.engine))
	return err
}

// apply applies a change or use step.
func (s *session) apply(st step) error {
	if err := s.policies.apply(st); err != nil {
		return err
	}
	return s.open()
}

// do makes the call of the step and returns its answer.
func (s *session) do(st step) answer {
	a, err := s.call(st)
	if err != nil {
		return answer{err: errorWord(err)}
	}
	return a
}

func (s *session) call(st step) (a answer, err error) {
	if st.isDirect() {
		return s.direct(st)
	}
	ctx, key := context.Background(), keyOf(s.limiter, st.key)
	at := s.limiter
	if !s.live {
		at = at.At(s.instant(st.at))
	}
	switch st.op {
	case opRefund:
		var d weir.Decision
		if st.from == oldest {
			return s.refundOldest(key, st)
		}
		d, err = (&weir.Call{Limiter: at, Key: key, Op: engine.Refund, From: s.instant(st.from), Request: weir.Request{N: st.n, ID: st.id}}).Do(ctx)
		a.units = d.Granted
	case opCount:
		a.units, err = at.Count(ctx, key, st.limit, st.last)
	case opReset:
		a.reset, err = s.limiter.Reset(ctx, key, st.names...)
	default:
		c := weir.Call{Limiter: at, Key: key, Op: requestOps[st.op], Request: weir.Request{N: st.n, ID: st.id, MaxWait: st.wait}}
		if st.states {
			c.Request.States = make([]weir.LimitState, len(s.current.order))
		}
		d, err := s.makeCall(&c, st)
		return s.decided(d, c.Request.States, err)
	}
	return a, err
}

// makeCall makes the call of a step. An attempt or a record of 0 units, which a Call rejects,
// goes to the engine itself.
func (s *session) makeCall(c *weir.Call, st step) (weir.Decision, error) {
	if st.n != 0 || c.Op == engine.Peek {
		return c.Do(context.Background())
	}
	peek := *c // for its errors of bad input
	if peek.Op = engine.Peek; peek.Check() != nil {
		return weir.Decision{}, peek.Check()
	}
	call := engine.Call{Rules: c.Limiter.Compiled(), Key: c.Key, Op: c.Op, ID: st.id,
		States: c.Request.States, Given: !s.live}
	if call.Given {
		call.At = s.instant(st.at).UnixMicro()
	}
	calls := []engine.Call{call}
	s.engine.Do(context.Background(), calls)
	if d := &calls[0].Result; !d.Replayed {
		call.Rules.Explain(d)
	}
	return weir.Decision(calls[0].Result), calls[0].Err
}

// decided returns the answer with a decision, and with its states if they were requested.
func (s *session) decided(d weir.Decision, states []weir.LimitState, err error) (answer, error) {
	a := answer{decision: d}
	switch {
	case err != nil || states == nil:
	case d.Replayed:
		err = checkNoStates(states)
	default:
		a.states, err = s.stripPolicy(states)
	}
	return a, err
}

// refundOldest makes the call of a refund of the oldest entries, which a Limiter has not. It has
// room for states, which stay clear.
func (s *session) refundOldest(key weir.Key, st step) (a answer, err error) {
	c := engine.Call{Rules: s.limiter.Compiled(), Key: key, Op: engine.Refund, N: st.n, From: engine.Oldest, ID: st.id,
		At: s.instant(st.at).UnixMicro(), Given: !s.live, States: make([]engine.State, len(s.limiter.Compiled().Limits))}
	if c.At < 0 || c.At > engine.MaxInstant { // as a Limiter rejects it (R1)
		return a, engine.Input("instant", "%d; use 0 to %d", c.At, engine.MaxInstant)
	}
	calls := []engine.Call{c}
	s.engine.Do(context.Background(), calls)
	if c.States[0] != (engine.State{}) {
		return a, fmt.Errorf("a refund has set the state %+v", c.States[0])
	}
	return answer{units: calls[0].Result.Granted}, calls[0].Err
}

var requestOps = map[string]engine.Op{opTake: engine.Attempt, opPeek: engine.Peek, opRecord: engine.Record,
	opSettle: engine.Settle, opExtend: engine.Extend, opBlock: engine.Block, opProbe: engine.Probe}

// direct makes the call of a step on the engine itself.
func (s *session) direct(st step) (a answer, err error) {
	c := engine.Call{Rules: s.limiter.Compiled(), Op: requestOps[st.op], N: st.n, ID: st.id,
		TTL: st.ttl.Microseconds(), MaxWait: longestWait(st.wait), At: s.instant(st.at).UnixMicro(), Given: !s.live}
	switch st.op {
	case opBlock:
		c.N, c.From = 0, st.last.Microseconds()
		if c.Rules, err = c.Rules.Resets(st.names); err != nil {
			return a, err
		}
	case opExtend:
		c.From = engine.Unknown
		if st.had != "" {
			if c.From, err = strconv.ParseInt(st.had, 10, 64); err != nil {
				return a, err
			}
		}
	}
	for _, name := range c.Rules.Dimensions {
		for _, part := range st.key {
			if part.dim == name {
				c.Key.Append(part.value)
			}
		}
	}
	if err := checkDirect(&c, st); err != nil {
		return a, err
	}
	if st.states || !st.decides() {
		c.States = make([]engine.State, len(c.Rules.Limits))
	}
	if st.usesReservation() {
		c.Reservation = new(engine.Reservation)
	}
	calls := []engine.Call{c}
	s.engine.Do(context.Background(), calls)
	return s.answered(st, &calls[0])
}

// checkDirect returns the error of bad input that a Limiter would return (R1, R14).
func checkDirect(c *engine.Call, st step) error {
	switch {
	case c.At < 0 || c.At > engine.MaxInstant:
		return engine.Input("instant", "%d; use 0 to %d", c.At, engine.MaxInstant)
	case c.N > engine.MaxUnits || c.N < 0 && (st.op != opSettle || c.N != engine.AllUnits):
		return engine.Input("units", "%d; use 0 to %d", c.N, engine.MaxUnits)
	case st.wait < 0 || st.wait > 0 && !canWait(c.Rules):
		return engine.Input("wait", "%v under policy %q", st.wait, c.Rules.Name)
	case c.Op == engine.Block && (c.From < 0 || c.From > weir.MaxWindow.Microseconds()):
		return engine.Input("span", "%v; use 0 to 400 days", st.last)
	}
	return c.Rules.CheckKey(&c.Key)
}

// longestWait returns a MaxWait in microseconds. Never stands for the longest one (R18).
func longestWait(d time.Duration) int64 { return min(d, weir.MaxWindow).Microseconds() }

// canWait reports whether attempts under the rules may wait (R18).
func canWait(rules *engine.Compiled) bool {
	isHold := func(l engine.Limit) bool { return l.Kind == engine.KindConcurrency }
	return rules.Mode != engine.CountDenied && !slices.ContainsFunc(rules.Limits, isHold)
}

// answered returns the answer to a step that was made on the engine itself. Fields that its
// operation does not set must be clear.
func (s *session) answered(st step, c *engine.Call) (a answer, err error) {
	r := &c.Result
	if c.Reservation != nil {
		a.reservation = *c.Reservation
	}
	isClear := func(s engine.State) bool { return s == engine.State{} }
	if st.states && c.Err == nil && !r.Replayed && st.decides() {
		isClear = func(engine.State) bool { return true }
	}
	switch {
	case c.Err != nil && (*r != engine.Result{} || a.reservation != engine.Reservation{}):
		return a, fmt.Errorf("after the error %q: %+v, %+v", c.Err, *r, a.reservation)
	case slices.ContainsFunc(c.States, func(s engine.State) bool { return !isClear(s) }):
		return a, fmt.Errorf("a %s has set states: %+v", st.op, c.States)
	case c.Err != nil:
		return a, c.Err
	}
	switch st.op {
	case opSettle:
		a.units = r.Granted
		want := engine.Result{Granted: r.Granted, At: r.At, Replayed: r.Replayed}
		if *r != want {
			err = fmt.Errorf("a settlement has set %+v", *r)
		}
		r.Granted = 0
	case opBlock:
		if want := (engine.Result{At: r.At, Blocked: r.Blocked}); *r != want {
			err = fmt.Errorf("a block has set %+v", *r)
		}
	}
	if st.isDecided() && !r.Replayed {
		c.Rules.Explain(r)
	}
	a.decision = weir.Decision(*r)
	if err == nil && st.states && st.decides() && !r.Replayed {
		a.states, err = s.stripPolicy(c.States)
	}
	return a, err
}

func (s *session) instant(at time.Duration) time.Time {
	return time.UnixMicro(s.epoch).Add(at)
}

// keyOf orders the values by the policy's dimensions. Values of other dimensions come last:
// the limiter must reject them (R14).
func keyOf(limiter *weir.Limiter, parts []keyPart) weir.Key {
	names := limiter.Compiled().Dimensions
	place := func(p keyPart) uint { return uint(slices.Index(names, p.dim)) } // the last if there is none
	var values []string
	for _, part := range slices.SortedStableFunc(slices.Values(parts), func(a, b keyPart) int { return cmp.Compare(place(a), place(b)) }) {
		values = append(values, part.value)
	}
	return weir.K(values...)
}

// checkNoStates checks that a replayed answer has no states.
func checkNoStates(states []weir.LimitState) error {
	for i, s := range states {
		if s != (weir.LimitState{}) {
			return fmt.Errorf("state %d of a replayed answer is %+v, want none", i, s)
		}
	}
	return nil
}

// stripPolicy checks the fields of the states that repeat the policy and clears them.
// Vectors contain the other fields.
func (s *session) stripPolicy(states []weir.LimitState) ([]weir.LimitState, error) {
	rules := s.limiter.Compiled()
	for i := range rules.Limits {
		l, got := &rules.Limits[i], &states[i]
		burst := l.Describe().Burst
		if got.Kind != l.Kind || got.Burst != burst {
			return nil, fmt.Errorf("state of %v, burst %d; the policy has %v, burst %d", got.Kind, got.Burst, l.Kind, burst)
		}
		window, interval := duration(l.Window), duration(l.MinInterval)
		if got.Name != l.Name || got.Max != l.Max || got.Window+got.MaxHold != window || got.MinInterval != interval {
			return nil, fmt.Errorf("state %d is of limit %s max=%d window=%v interval=%v, want %s max=%d window=%v interval=%v", i,
				got.Name, got.Max, got.Window+got.MaxHold, got.MinInterval, l.Name, l.Max, window, interval)
		}
		got.Max, got.Window, got.MaxHold, got.MinInterval, got.Kind, got.Burst = 0, 0, 0, 0, 0, 0
	}
	return states, nil
}

// duration converts microseconds to a duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
