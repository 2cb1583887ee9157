package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/dims"
	"github.com/weirlimit/weir/internal/spec"
)

// together decides random calls together, of two policies and several keys, and compares the
// answers with those of a model. Numbers and windows change between calls. It returns a report of
// the first difference, or "".
//
// The model uses single requests of the specification only, each under one limit: it peeks
// at every history, and takes the units of all calls if every peek is allowed. A call of 0
// units takes none.
func together(e engine.Engine, c Config) string {
	const perHistory = 20
	decided, tried := 0, 0
	for history := range c.Attempts / attemptsPerBatch / perHistory {
		r := rand.New(rand.NewPCG(c.Seed, 1<<36+uint64(history)))
		m := newTogetherModel(r, e, &c)
		for range perHistory {
			if r.IntN(4) == 0 {
				m.change(r)
			}
			calls := m.randomCalls(r)
			want, err := m.charges(calls), weir.DecideTogether(context.Background(), calls)
			if want.tooMany() {
				if !errors.Is(err, &engine.InputError{Field: "units"}) {
					return fmt.Sprintf("seed %d, history %d: more units than MaxUnits together: %v\n  %s", c.Seed, history, err, quoteRule(14))
				}
				m.last = nil
				continue
			}
			tried++
			if errors.Is(err, weir.ErrInput) && !m.oneKey(calls) { // on a Cluster
				continue
			}
			want.decide(calls[0].Request.At.UnixMicro())
			if decided++; err != nil {
				return fmt.Sprintf("seed %d, history %d: calls together: %v", c.Seed, history, err)
			}
			want.commit(calls)
			for i := range calls {
				if report := want.differs(i, &calls[i]); report != "" {
					return fmt.Sprintf("seed %d, history %d: call %d of those together: %s\n%s\n  %s", c.Seed, history, i, report, m.describe(calls), quoteRule(7))
				}
			}
			m.wait = calls[0].Decision.RetryAfter
		}
	}
	if decided*10 < tried {
		return fmt.Sprintf("only %d of %d calls together are of one slot", decided, tried)
	}
	return ""
}

// togetherModel is two policies on an engine, and each of their limits on a specification.
type togetherModel struct {
	engine   engine.Engine // tested
	spec     *spec.Engine
	first    [2]weir.Policy
	policies [2]weir.Policy // the first ones, or with other numbers and windows
	tested   [2]*weir.Limiter
	single   [2][]*weir.Limiter // by policy and limit
	now      int64
	wait     time.Duration // until the last calls would be granted
	last     []weir.Call
}

func newTogetherModel(r *rand.Rand, e engine.Engine, c *Config) *togetherModel {
	m := &togetherModel{engine: e, spec: spec.New(), now: defaultEpoch}
	for i := range m.first {
		policy := randomPolicy(r, c).policy(freshPrefix())
		for policy.Mode == weir.CountDenied || slices.ContainsFunc(policy.Limits, func(l weir.Limit) bool { return l.Kind == weir.KindConcurrency }) {
			policy = randomPolicy(r, c).policy(freshPrefix())
		}
		m.first[i] = policy
		mustBeValid(m.use(i, policy))
	}
	return m
}

// use makes the limiters of policy i.
func (m *togetherModel) use(i int, policy weir.Policy) error {
	tested, err := weir.New(policy, weir.WithEngine(m.engine))
	if err != nil {
		return err
	}
	m.policies[i], m.tested[i], m.single[i] = policy, tested, nil
	for _, limit := range policy.Limits {
		limit.Cost, limit.Block = 0, 0 // the model adds the costs and begins the blocks
		l, err := weir.New(weir.Policy{Name: policy.Name, Limits: []weir.Limit{limit}, Dimensions: limit.By}, weir.WithEngine(m.spec))
		mustBeValid(err)
		m.single[i] = append(m.single[i], l)
	}
	return nil
}

// change changes numbers and windows of a policy, as a reload does (R12). No window becomes longer
// than at first, because an engine may have forgotten units that no longer counted.
func (m *togetherModel) change(r *rand.Rand) {
	i := r.IntN(len(m.first))
	policy := m.first[i]
	policy.Limits = slices.Clone(policy.Limits)
	for j := range policy.Limits {
		limit := &policy.Limits[j]
		if limit.Max = max(1, limit.Max+r.Int64N(5)-2); limit.Kind == weir.KindRolling {
			limit.Window /= time.Duration(1 + r.IntN(2))
		}
	}
	if m.use(i, policy) == nil { // otherwise the numbers do not fit each other
		m.last = nil
	}
}

// randomCalls returns calls at the next instant. Often they are the last ones, at the end of
// their wait or a microsecond sooner.
func (m *togetherModel) randomCalls(r *rand.Rand) []weir.Call {
	if m.wait > 0 && m.wait != weir.Never && m.last != nil && r.IntN(2) == 0 {
		m.now += m.wait.Microseconds() - r.Int64N(2)
	} else {
		m.last = nil
		m.now += []int64{0, 0, 1, r.Int64N(1000), r.Int64N(10_000_000), r.Int64N(4_000_000_000)}[r.IntN(6)]
		for range 1 + r.IntN(4) {
			l := m.tested[r.IntN(2)]
			k := make([]string, len(l.Compiled().Dimensions))
			for i := range k {
				k[i] = values[r.IntN(3)]
			}
			c := weir.Call{Limiter: l, Key: weir.K(k...),
				Request: weir.Request{N: r.Int64N(4), States: make([]weir.LimitState, len(l.Compiled().Limits))}}
			if c.Request.N == 0 {
				c.Op = engine.Peek
			}
			m.last = append(m.last, c)
		}
	}
	at := m.now - max(0, r.Int64N(2_000_000)-1_000_001) // less than a second back (R2)
	for i := range m.last {
		m.last[i].Request.At = time.UnixMicro(at)
	}
	return m.last
}

// oneKey reports whether all calls are of one policy and one key.
func (m *togetherModel) oneKey(calls []weir.Call) bool {
	return !slices.ContainsFunc(calls, func(c weir.Call) bool {
		return c.Limiter != calls[0].Limiter || !reflect.DeepEqual(c.Key, calls[0].Key)
	})
}

// outcome is the model's decision.
type outcome struct {
	spec     *spec.Engine
	allowed  bool
	attempts bool // the calls have units
	at       int64
	charged  []*charge
	of       [][]*charge // by call and limit
}

// charge is the units of all calls for one history.
type charge struct {
	limiter *weir.Limiter
	key     weir.Key
	units   int64
	block   int64           // length of the block that a denial begins, in microseconds
	state   weir.LimitState // after the decision
}

// charges returns the units of all calls for each history.
func (m *togetherModel) charges(calls []weir.Call) *outcome {
	o := &outcome{spec: m.spec}
	known := map[string]*charge{}
	for i := range calls {
		c := &calls[i]
		o.attempts = o.attempts || c.Request.N > 0
		var of []*charge
		for j, limit := range c.Limiter.Compiled().Limits {
			single := m.single[slices.Index(m.tested[:], c.Limiter)][j]
			var own []string
			for _, dim := range single.Compiled().Dimensions {
				own = append(own, c.Key.Value(slices.Index(c.Limiter.Compiled().Dimensions, dim)))
			}
			name := fmt.Sprintf("%p %q", single, own)
			if known[name] == nil {
				known[name] = &charge{limiter: single, key: weir.K(own...), block: limit.Block}
				o.charged = append(o.charged, known[name])
			}
			known[name].units += limit.Units(c.Request.N)
			of = append(of, known[name])
		}
		o.of = append(o.of, of)
	}
	return o
}

// tooMany reports whether the units for one history are more than any attempt may have.
func (o *outcome) tooMany() bool {
	return slices.ContainsFunc(o.charged, func(ch *charge) bool { return ch.units > weir.MaxUnits })
}

// decide decides by single peeks.
func (o *outcome) decide(at int64) {
	for _, ch := range o.charged {
		o.at = max(o.at, ch.do(engine.Peek, at).At.UnixMicro())
	}
	o.allowed = true
	for _, ch := range o.charged {
		o.allowed = ch.do(engine.Peek, o.at).Allowed && o.allowed
	}
}

// commit takes the units if the decision is a grant, and begins blocks if it is a denial. A bucket
// that they do not charge gets its new rate all the same (R12), as an attempt of more units than
// ever fit gives it.
func (o *outcome) commit(calls []weir.Call) {
	if !o.allowed {
		o.beginBlocks(calls)
	}
	for _, ch := range o.charged {
		if o.allowed && ch.units > 0 {
			ch.do(engine.Attempt, o.at)
		} else if denied := *ch; o.attempts && ch.limiter.Compiled().Limits[0].Kind == weir.KindBucket {
			denied.units = weir.MaxUnits
			denied.do(engine.Attempt, o.at)
		}
	}
}

// beginBlocks begins the block of the Limit of each call that has one and is no peek, unless a
// block runs (R7, R20).
func (o *outcome) beginBlocks(calls []weir.Call) {
	if slices.ContainsFunc(o.charged, func(ch *charge) bool { return ch.state.Blocked > 0 }) {
		return
	}
	for i, of := range o.of {
		if calls[i].Request.N == 0 {
			continue
		}
		denier := of[0]
		for _, ch := range of {
			if ch.state.RetryAfter > denier.state.RetryAfter {
				denier = ch
			}
		}
		if denier.block > 0 && denier.state.RetryAfter > 0 {
			o.spec.Do(context.Background(), []engine.Call{{Rules: denier.limiter.Compiled(), Key: denier.key,
				Op: engine.Block, From: denier.block, At: o.at, Given: true}})
		}
	}
	for _, ch := range o.charged {
		ch.do(engine.Peek, o.at)
	}
}

// do makes a single request, and keeps the state after it.
func (ch *charge) do(op engine.Op, at int64) weir.Decision {
	states := make([]weir.LimitState, 1)
	c := weir.Call{Limiter: ch.limiter, Key: ch.key, Op: op,
		Request: weir.Request{N: ch.units, At: time.UnixMicro(at), States: states}}
	d, err := c.Do(context.Background())
	mustBeValid(err)
	ch.state = states[0]
	return d
}

// differs compares the answer of call i with the model's.
func (o *outcome) differs(i int, c *weir.Call) string {
	want := weir.Decision{Allowed: o.allowed, At: time.UnixMicro(o.at), Remaining: o.of[i][0].state.Remaining}
	if o.allowed {
		want.Granted = c.Request.N
	}
	for _, ch := range o.charged {
		want.RetryAfter = max(want.RetryAfter, ch.state.RetryAfter)
	}
	var states []weir.LimitState
	longest := time.Duration(0)
	for _, ch := range o.of[i] {
		want.Remaining = min(want.Remaining, ch.state.Remaining)
		want.ResetAfter = max(want.ResetAfter, ch.state.ResetAfter)
		want.Blocked = max(want.Blocked, ch.state.Blocked)
		if !o.allowed && ch.state.RetryAfter > longest {
			longest, want.Limit = ch.state.RetryAfter, ch.state.Name
		}
		states = append(states, ch.state)
	}
	switch (answer{decision: want, states: states}).difference(answer{decision: c.Decision, states: c.Request.States}) {
	case "":
		return ""
	case "states":
		return fmt.Sprintf("got states\n%+v, want\n%+v", c.Request.States, states)
	}
	return fmt.Sprintf("got %#v, want %#v", c.Decision, want)
}

// describe returns the policies and the calls.
func (m *togetherModel) describe(calls []weir.Call) string {
	var b strings.Builder
	for _, p := range m.policies {
		fmt.Fprintf(&b, "%+v\n", p)
	}
	for i := range calls {
		c := &calls[i]
		fmt.Fprintf(&b, "%d: %d units of %s for %+v at %v\n", i, c.Request.N, c.Limiter.Compiled().Name, c.Key, c.Request.At)
	}
	return b.String()
}

// transfers charges two histories together in several goroutines, while others read both in
// one step. No reader may see one charged without the other. The histories are those of two
// keys, or of all callers.
func transfers(e engine.Engine, c Config) string {
	for _, by := range [][]string{{"from", "to"}, {}} {
		if report := transferred(e, c, by); report != "" {
			return report
		}
	}
	return ""
}

func transferred(e engine.Engine, c Config, by []string) string {
	const fit = 80
	limits := []weir.Limit{{Name: "sent", Max: 2 * fit, Window: time.Hour}, {Name: "received", Max: fit, Window: time.Hour}}
	key := weir.K(values[:len(by)]...)
	keys := []weir.Key{weir.K(), weir.K()}
	for i := range by {
		limits[i].By, keys[i] = by[i:i+1], weir.K(values[i])
	}
	name := freshPrefix() + "transfers"
	open := func(limits ...weir.Limit) *weir.Limiter {
		l, err := weir.New(weir.Policy{Name: name, Limits: limits, Dimensions: dims.Of(limits...)}, weir.WithEngine(e))
		mustBeValid(err)
		return l
	}
	sent, received, both := open(limits[:1]...), open(limits[1:]...), open(limits...)
	var granted atomic.Int64
	problems := make(chan error)
	for range c.Goroutines {
		go func() {
			var problem error
			states := make([]weir.LimitState, 2)
			for range 4*fit/c.Goroutines + 1 {
				r := weir.Request{N: 1}
				calls := []weir.Call{{Limiter: sent, Key: keys[0], Request: r}, {Limiter: received, Key: keys[1], Request: r}}
				if err := weir.DecideTogether(context.Background(), calls); err != nil {
					problem = err
					break
				}
				granted.Add(calls[0].Decision.Granted)
				if calls[0].Decision.Allowed != calls[1].Decision.Allowed {
					problem = errors.New("one of two calls together was granted")
				}
				if _, err := (&weir.Call{Limiter: both, Key: key, Op: engine.Peek, Request: weir.Request{N: 1, States: states}}).Do(context.Background()); err != nil {
					problem = err
				} else if states[0].Used != states[1].Used {
					problem = fmt.Errorf("%d units were charged to the one key and %d to the other", states[0].Used, states[1].Used)
				}
			}
			problems <- problem
		}()
	}
	var problem error
	for range c.Goroutines {
		if p := <-problems; p != nil {
			problem = p
		}
	}
	switch {
	case len(by) > 0 && granted.Load() == 0 && errors.Is(problem, weir.ErrInput):
		return "" // on a Cluster
	case problem != nil:
		return fmt.Sprintf("%v\n  %s", problem, quoteRule(7))
	case granted.Load() != fit:
		return fmt.Sprintf("%d of at most %d transfers were granted\n  %s", granted.Load(), fit, quoteRule(7))
	}
	return ""
}
