package conformance

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// bookingsEach is the number of attempts of each goroutine.
const bookingsEach = 4

// appointments lets many goroutines book at the same time, by the engine's own clock. By the
// instants at which the uses begin no limit is exceeded, and a key is served in the order of the
// decisions (R18). It returns a report of the first broken promise, or "".
func appointments(e engine.Engine, c Config) string {
	for i := range c.Hammers {
		h, err := newBookings(rand.New(rand.NewPCG(c.Seed, 5<<32+uint64(i))), e, &c)
		if err != nil {
			return err.Error()
		}
		if h == nil {
			return ""
		}
		breach := ""
		if err := h.run(); err != nil {
			breach = err.Error()
		} else {
			breach = h.audit()
		}
		if breach != "" {
			return fmt.Sprintf("seed %d, appointments %d: %s\n  %s%s", c.Seed, i, breach, quoteRule(18), h.describe())
		}
	}
	return ""
}

// bookings are appointments of a few keys under one policy.
type bookings struct {
	engine     engine.Engine
	policy     *mutablePolicy
	limiter    *weir.Limiter
	keys       [][]keyPart
	goroutines int
	cancels    bool // some appointments are cancelled
	seed       uint64

	mu      sync.Mutex
	made    []made
	stalled bool // a call took so long that R2 may have moved what it reported
	late    bool // a cancel came after the start, and was a refund
}

// made is an attempt with its answer.
type made struct {
	key       int
	n         int64
	decision  weir.Decision
	cancelled bool
}

// start is the instant at which the use begins, in microseconds since 1970.
func (m *made) start() int64 { return m.decision.At.Add(m.decision.StartAfter).UnixMicro() }

// newBookings returns bookings under a random policy, or nil if the engine claims none.
func newBookings(r *rand.Rand, e engine.Engine, c *Config) (*bookings, error) {
	h := &bookings{engine: e, goroutines: c.Goroutines, cancels: r.IntN(2) == 0, seed: r.Uint64()}
	for range 50 {
		h.policy = bookingPolicy(r)
		rules, err := h.policy.policy("").Compile()
		if err == nil && (c.Claims == nil || c.Claims(&engine.Call{Rules: rules, N: 1, MaxWait: 1})) {
			h.keys = [][]keyPart{{{"user", "a"}}, {{"user", "b"}}}
			h.limiter, err = weir.New(h.policy.policy(freshPrefix()), weir.WithEngine(e))
			return h, err
		}
	}
	return nil, nil
}

// bookingPolicy returns a policy with a limit by key, and often one that keys share.
func bookingPolicy(r *rand.Rand) *mutablePolicy {
	b := &mutablePolicy{name: "h", mode: weir.Mode(r.IntN(2))}
	for i := range 1 + r.IntN(3) {
		limit := weir.Limit{
			Name:   fmt.Sprintf("l%d", i),
			Max:    1 + r.Int64N(5),
			Window: 2*time.Millisecond + time.Duration(r.IntN(20_000))*us,
			Kind:   []weir.Kind{weir.KindRolling, weir.KindRolling, weir.KindBucket, weir.KindFixed, weir.KindFixedFromFirst}[r.IntN(5)],
			By:     []string{"user"},
		}
		if i > 0 {
			limit.By, limit.Max = nil, limit.Max*4
		}
		if r.IntN(4) == 0 {
			limit.MinInterval = time.Duration(r.IntN(1_000)) * us
		}
		if limit.Kind == weir.KindRolling && r.IntN(3) == 0 {
			limit.Cells = 1 + r.IntN(9)
		}
		if limit.Kind == weir.KindBucket {
			limit.Burst = 1 + r.Int64N(5)
		}
		b.add(limit)
	}
	return b
}

// run starts the goroutines together, and waits for them.
func (h *bookings) run() error {
	errs := make([]error, h.goroutines)
	atTheSameTime(h.goroutines, func(i int) {
		r := rand.New(rand.NewPCG(h.seed, uint64(i)))
		for range bookingsEach {
			if err := h.book(r); err != nil {
				errs[i] = err
				return
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// book makes one attempt, and may cancel it.
func (h *bookings) book(r *rand.Rand) error {
	m := made{key: r.IntN(len(h.keys)), n: 1}
	if r.IntN(4) == 0 {
		m.n = 2
	}
	wait := weir.Never
	if r.IntN(4) == 0 {
		wait = time.Duration(r.IntN(30)) * time.Millisecond
	}
	began := time.Now()
	d, err := h.limiter.Decide(context.Background(), h.key(m.key), weir.Request{N: m.n, MaxWait: wait})
	if err != nil {
		return err
	}
	m.decision = d
	switch {
	case d.StartAfter > wait || d.StartAfter < 0 || !d.Allowed && d.StartAfter != 0:
		return fmt.Errorf("with MaxWait %v: %v, StartAfter %v", wait, d, d.StartAfter)
	case wait > 0 && d.Allowed && d.Granted != m.n:
		return fmt.Errorf("with MaxWait %v: %d of %d units granted", wait, d.Granted, m.n)
	}
	if d.StartAfter > 0 && h.cancels && r.IntN(3) == 0 {
		if err := h.cancel(&m); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made = append(h.made, m)
	h.stalled = h.stalled || time.Since(began) > 500*time.Millisecond
	return nil
}

// key returns the key of an index.
func (h *bookings) key(i int) weir.Key { return keyOf(h.limiter, keyFor(h.policy, h.keys[i])) }

// cancel takes an appointment back.
func (h *bookings) cancel(m *made) error {
	calls := []engine.Call{{Rules: h.limiter.Compiled(), Key: h.key(m.key), Op: engine.Refund, N: m.n, From: m.start()}}
	h.engine.Do(context.Background(), calls)
	r := &calls[0].Result
	isLate := r.At.UnixMicro() >= m.start()
	if calls[0].Err != nil {
		return calls[0].Err
	}
	if !isLate && r.Granted != m.n {
		return fmt.Errorf("a cancel at %d of an appointment of %d units at %d took %d", r.At.UnixMicro(), m.n, m.start(), r.Granted)
	}
	m.cancelled = r.Granted == m.n
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = h.late || isLate
	return nil
}

// audit returns a description of the first broken promise, or "".
func (h *bookings) audit() string {
	if h.stalled {
		return ""
	}
	for i, limit := range h.policy.limits {
		for id, uses := range h.uses(i) {
			breach := auditSpans(byInstant(uses), limit, 0, "by the instants of use")
			if !h.cancels || limit.Kind != weir.KindFixedFromFirst { // where cancels join windows (R18)
				whole := concurrentHistory{policy: h.policy}
				breach = cmp.Or(breach, whole.auditFixed(uses, limit))
			}
			if breach != "" {
				return fmt.Sprintf("history %q: %s", id, breach)
			}
		}
	}
	return cmp.Or(h.auditOrder(), h.auditAhead())
}

// uses returns the uses that limit i counts, in the order of their instants, by history.
func (h *bookings) uses(i int) map[string][]grantSpan {
	all := map[string][]grantSpan{}
	for j := range h.made {
		m := &h.made[j]
		if m.decision.Granted > 0 && !m.cancelled {
			id := historyOf(h.policy.limits[i], h.keys[m.key])
			all[id] = append(all[id], grantSpan{at: m.start(), units: m.decision.Granted})
		}
	}
	for _, uses := range all {
		slices.SortFunc(uses, func(a, b grantSpan) int { return cmp.Compare(a.at, b.at) })
	}
	return all
}

// auditOrder finds a use of a key that begins before one that was decided earlier. After a cancel
// there is no order.
func (h *bookings) auditOrder() string {
	if h.cancels {
		return ""
	}
	for i := range h.made {
		for j := range h.made {
			first, second := &h.made[i], &h.made[j]
			isSame := first.key == second.key && first.decision.Allowed && second.decision.Allowed
			if isSame && first.decision.At.Before(second.decision.At) && second.start() < first.start() {
				return fmt.Sprintf("a use decided at %d begins at %d, and one decided later, at %d, at %d",
					first.decision.At.UnixMicro(), first.start(), second.decision.At.UnixMicro(), second.start())
			}
		}
	}
	return ""
}

// auditAhead compares the units that the engine has ahead with the uses.
func (h *bookings) auditAhead() string {
	for key := range h.keys {
		states := make([]weir.LimitState, len(h.policy.limits))
		d, err := (&weir.Call{Limiter: h.limiter, Key: h.key(key), Op: engine.Peek, Request: weir.Request{N: 1, States: states}}).Do(context.Background())
		if err != nil {
			return err.Error()
		}
		now := d.At.UnixMicro()
		for i, limit := range h.policy.limits {
			ahead, last := int64(0), int64(0)
			for _, use := range h.uses(i)[historyOf(limit, h.keys[key])] {
				if use.at > now {
					ahead, last = ahead+use.units, use.at-now
				}
			}
			if states[i].Ahead != ahead || states[i].LastAhead != duration(last) {
				return fmt.Sprintf("limit %q has %d units ahead, the last in %v; by the answers %d, in %v",
					limit.Name, states[i].Ahead, states[i].LastAhead, ahead, duration(last))
			}
		}
	}
	return ""
}

// describe shows the policy and the attempts.
func (h *bookings) describe() string {
	text := ""
	for _, limit := range h.policy.limits {
		text += "\n    " + limitText(limit)
	}
	slices.SortFunc(h.made, func(a, b made) int { return a.decision.At.Compare(b.decision.At) })
	for _, m := range h.made {
		text += fmt.Sprintf("\n    key %d: %d units at %d, start %d, cancelled %t: %v",
			m.key, m.n, m.decision.At.UnixMicro(), m.start(), m.cancelled, m.decision)
	}
	return text
}
